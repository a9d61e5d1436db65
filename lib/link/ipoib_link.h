// One IPoIB link over UD: bring-up through the SA, ARP, paths, neighbours. Source: RFC 4391.
#pragma once

#include "lib/link/ipoib_types.h"
