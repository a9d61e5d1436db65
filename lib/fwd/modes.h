// How workers may be told to behave. No EAL, so that configuration can name these, too.
#pragma once

#include <cstdint>

namespace ipoib::fwd {

/// What an lcore does with a loop that found nothing to do.
enum class IdlePolicy : std::uint8_t {
  kPoll,   ///< Looks again at once.
  kPause,  ///< A pause instruction first: kinder to the sibling hyper-thread.
  kSleep,  ///< Sleeps up to 50 us after some empty loops: fewer cores than lcores.
};

enum class ForwardMode : std::uint8_t {
  kRoute,
  kIo,  ///< Frames cross between paired Ethernet ports as they are.
};

}  // namespace ipoib::fwd
