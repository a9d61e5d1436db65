#include "lib/mgmt/retired_queues.h"

namespace ipoib::mgmt {

void RetiredQueues::add(fabric::ConnectedQueue& queue) {
  Retired& retired = queues_.emplace_back(Retired{&queue, {}});
  for (const WorkerHandle& w : workers_.all()) retired.after.push_back(w.channel->sent());
}

bool RetiredQueues::is_free(const Retired& retired) const {
  for (std::size_t i = 0; i < retired.after.size(); ++i)
    if (workers_.all()[i].worker->applied() < retired.after[i]) return false;
  return true;
}

void RetiredQueues::collect() {
  while (!queues_.empty() && is_free(queues_.front())) {
    hca_.destroy_connected_queue(*queues_.front().queue);
    queues_.pop_front();
  }
}

void RetiredQueues::destroy_all() {
  for (const Retired& retired : queues_) hca_.destroy_connected_queue(*retired.queue);
  queues_.clear();
}

}  // namespace ipoib::mgmt
