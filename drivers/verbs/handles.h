// SPDX-License-Identifier: BSD-3-Clause
// Owning pointers to objects of libibverbs.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

namespace ipoib::verbs {

/// `kDestroy` fails only for objects that are still in use; these are leaked.
template <auto kDestroy>
struct Destroy {
  template <class T>
  void operator()(T* object) const noexcept {
    static_cast<void>(kDestroy(object));
  }
};

/// ibv_dealloc_td() is only an inline function, so it cannot be an argument of Destroy.
struct DestroyTd {
  void operator()(ibv_td* td) const noexcept { static_cast<void>(ibv_dealloc_td(td)); }
};

using ContextPtr = std::unique_ptr<ibv_context, Destroy<&ibv_close_device>>;
using PdPtr = std::unique_ptr<ibv_pd, Destroy<&ibv_dealloc_pd>>;
using TdPtr = std::unique_ptr<ibv_td, DestroyTd>;
using MrPtr = std::unique_ptr<ibv_mr, Destroy<&ibv_dereg_mr>>;
using CqPtr = std::unique_ptr<ibv_cq, Destroy<&ibv_destroy_cq>>;
using SrqPtr = std::unique_ptr<ibv_srq, Destroy<&ibv_destroy_srq>>;
using QpPtr = std::unique_ptr<ibv_qp, Destroy<&ibv_destroy_qp>>;
using AhPtr = std::unique_ptr<ibv_ah, Destroy<&ibv_destroy_ah>>;

}  // namespace ipoib::verbs
