// SPDX-License-Identifier: BSD-3-Clause
// Names of tests are those of tests/requirements.md.
#include "lib/cm/request_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace ipoib::cm {
namespace {

WaitingRequest request(std::uint16_t lid, std::uint32_t id, bool known = false) {
  WaitingRequest waiting;
  waiting.port.lid = lid;
  waiting.ca_guid = 0x100U + lid;
  waiting.id = id;
  waiting.known = known;
  return waiting;
}

/// The communication IDs of all requests, in order.
std::vector<std::uint32_t> ids(const RequestQueue& queue) {
  std::vector<std::uint32_t> all;
  for (const auto& key : queue.keys()) all.push_back(queue.find(key)->id);
  return all;
}

TEST(RequestQueue, P16_APortGetsAtMostHalfOfWhatTheOthersLeave) {
  RequestQueue queue;
  std::size_t places = 0;
  for (std::uint32_t i = 0; i < 100; ++i) places += queue.add(request(7, i)) ? 1 : 0;
  EXPECT_EQ(places, RequestQueue::kPlacesOfPort);
  for (std::uint16_t lid = 100; lid < 1100; ++lid)
    for (std::uint32_t i = 0; i < 20; ++i) static_cast<void>(queue.add(request(lid, i)));
  EXPECT_LE(queue.size(), RequestQueue::kPlacesOfStrangers);
  EXPECT_GE(queue.size(), RequestQueue::kPlacesOfStrangers - 2);
  // Neighbours have places of their own.
  EXPECT_TRUE(queue.add(request(3, 1, true)));
  EXPECT_FALSE(queue.add(request(3000, 1)));
}

TEST(RequestQueue, C16_NeighboursComeFirstEachInTheOrderOfArrival) {
  RequestQueue queue;
  for (const std::uint32_t id : {1U, 2U, 3U, 4U})
    EXPECT_TRUE(queue.add(request(static_cast<std::uint16_t>(10 + id), id, id % 2 == 0)));
  EXPECT_EQ(ids(queue), (std::vector<std::uint32_t>{2, 4, 1, 3}));
  // A stranger is found to be a neighbour, and arrived before the others.
  const auto key = queue.find({.lid = 11, .gid = {}}, 0x100 + 11, 1);
  ASSERT_TRUE(key);
  EXPECT_FALSE(queue.is_before(false));
  queue.update(*key, true, true);
  EXPECT_EQ(ids(queue), (std::vector<std::uint32_t>{1, 2, 4, 3}));
  EXPECT_TRUE(queue.is_before(true));
  EXPECT_FALSE(queue.find({.lid = 12, .gid = {}}, 0x100 + 11, 1)) << "that of another port";
}

/// After any sequence of calls, the queue counts as a list of all its requests would.
TEST(RequestQueue, P16_CountsAgreeWithAList) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random{seed};
    RequestQueue queue;
    for (std::uint32_t step = 0; step < 3000; ++step) {
      const auto keys = queue.keys();
      const auto some = [&] { return keys[random() % keys.size()]; };
      switch (random() % 4) {
        case 0:
          if (!keys.empty()) queue.erase(some());
          break;
        case 1:
          if (!keys.empty()) queue.update(some(), random() % 2 == 0, random() % 8 == 0);
          break;
        default:
          static_cast<void>(queue.add(
              request(static_cast<std::uint16_t>(random() % 40), step, random() % 4 == 0)));
      }
      std::map<std::uint16_t, std::size_t> of_port;
      bool ready_known = false;
      bool ready = false;
      for (const auto& key : queue.keys()) {
        const WaitingRequest& waiting = *queue.find(key);
        ASSERT_EQ(key.stranger, !waiting.known);
        ASSERT_LE(++of_port[waiting.port.lid], RequestQueue::kPlacesOfPort);
        ready |= waiting.ready;
        ready_known |= waiting.ready && waiting.known;
      }
      ASSERT_LE(queue.size(), RequestQueue::kPlaces);
      ASSERT_EQ(queue.is_before(false), ready);
      ASSERT_EQ(queue.is_before(true), ready_known);
    }
  }
}

}  // namespace
}  // namespace ipoib::cm
