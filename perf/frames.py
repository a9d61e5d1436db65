"""The input of the throughput measurement: 64-octet IPv4 packets of 2,048 flows to 1,024 neighbours,
in Ethernet frames or in InfiniBand packets, and the node configurations that forward them."""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
import iba  # noqa: E402

NEIGHBOURS = 1024
FLOWS = 2048
IP_OCTETS = 64
LID = 1
QPN = 0x48
PCAP_MAC = bytes.fromhex("027063617000")  # What net_pcap0 calls itself.


def neighbour_address(index):
    return bytes([10, 9, 1 + index // 256, index % 256])


def dotted(address):
    return ".".join(map(str, address))


def flows():
    """Each neighbour twice, from different ports, neighbours not in order."""
    for flow in range(FLOWS):
        neighbour = flow * 389 % NEIGHBOURS
        source = bytes([192, 168, 1, 2 + flow % 200])
        yield iba.ipv4_udp(source, neighbour_address(neighbour), (1024 + flow, 5001), IP_OCTETS)


def ethernet_input():
    head = PCAP_MAC + bytes.fromhex("020000000002") + struct.pack(">H", 0x0800)
    return iba.pcap(head + packet for packet in flows())


def infiniband_input():
    return iba.pcap(
        iba.frame(2 + index % 500, LID,
                  iba.ud_packet(2 + index % 500, LID, QPN, iba.ipoib(0x0800, packet), psn=index))
        for index, packet in enumerate(flows()))


COMMON = """
[hca.soft0]
driver = "soft"
wire = "{wire}"
guid = "0x0002c90300000001"
lid = {lid}
sm-lid = {lid}
subnet-administrator = true
first-qpn = {qpn}
icrc = "{icrc}"

[link.ib0]
hca = "soft0"
address = ["{link}"]

[port.eth0]
device = "{port}"
address = ["{ethernet}"]
"""


def configuration(direction, icrc):
    """TOML of the node: `direction` "out" (Ethernet in, IPoIB out) or "in" (the other way round)."""
    out = direction == "out"
    text = COMMON.format(
        lid=LID, qpn=QPN, icrc="on" if icrc else "off",
        wire="net_null0" if out else "net_pcap0", port="net_pcap0" if out else "net_null0",
        link="10.9.0.1/16" if out else "192.168.1.1/24",
        ethernet="192.168.1.1/24" if out else "10.9.0.1/16")
    rows = [text]
    for index in range(NEIGHBOURS):
        lid = 2 + index
        if out:
            lladdr = f"00:{index + 0x100:06x}fe80000000000000{0x0002c90300010000 + index:016x}"
            lladdr = "00:" + ":".join(lladdr[3:][i:i + 2] for i in range(0, 38, 2))
            where = f'link = "ib0"\nlid = {lid}\n'
        else:
            lladdr = f"02:00:00:01:{index // 256:02x}:{index % 256:02x}"
            where = 'link = "eth0"\n'
        rows.append(f'[[neighbour]]\n{where}address = "{dotted(neighbour_address(index))}"\n'
                    f'lladdr = "{lladdr}"\n')
    return "\n".join(rows)
