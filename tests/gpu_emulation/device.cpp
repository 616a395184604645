// A CUDA device in the memory of the host, for torch built without CUDA: every operator runs as the CPU's does, on
// the device's own memory, and tensors of two devices are refused as on a GPU. Private interfaces of torch 2.13.0.
//
// New memory holds bytes 0xff, which is nan in every floating type, and so does freed memory: what nobody wrote and
// what is used too late is seen. Behind every block lies a red zone that nobody may write.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/Resize.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/extension.h>
#include <torch/library.h>

#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace {

const c10::Device DEVICE(c10::DeviceType::CUDA, 0);
const c10::Stream STREAM(c10::Stream::DEFAULT, DEVICE);
constexpr c10::DispatchKeySet KEYS(c10::DispatchKey::CUDA);
constexpr size_t STEP = 512;  // torch's caching allocator rounds to it
constexpr int POISON = 0xff;

// ---- memory

struct Block {
  size_t held, asked;
};
std::mutex guarded;
std::map<void*, Block> blocks;                     // in use
std::map<size_t, std::set<void*>> freed;           // by size: the lowest address is used again first
int64_t overrun = 0;

bool intact(void* start, const Block& block) {
  auto* bytes = static_cast<unsigned char*>(start);
  for (size_t i = block.asked; i < block.held + STEP; i++)
    if (bytes[i] != POISON) return false;
  return true;
}

void release(void* start) {
  if (!start) return;
  std::lock_guard<std::mutex> lock(guarded);
  const Block block = blocks.at(start);
  if (!intact(start, block)) overrun++;
  memset(start, POISON, block.held + STEP);
  blocks.erase(start);
  freed[block.held].insert(start);
}

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t asked) override {
    void* start = nullptr;
    if (asked) {
      const size_t held = (asked + STEP - 1) / STEP * STEP;
      std::lock_guard<std::mutex> lock(guarded);
      auto& same = freed[held];
      if (!same.empty()) {
        start = *same.begin();
        same.erase(same.begin());
      } else if (posix_memalign(&start, STEP, held + STEP)) {
        throw std::bad_alloc();
      }
      memset(start, POISON, held + STEP);
      blocks[start] = {held, asked};
    }
    return {start, start, &release, DEVICE};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t count) const override { memcpy(to, from, count); }
};
Memory memory;

int64_t overruns() {
  std::lock_guard<std::mutex> lock(guarded);
  int64_t found = overrun;
  for (auto& [start, block] : blocks) found += !intact(start, block);
  return found;
}

// ---- what torch asks about the device: there is one, with one stream, and work is done when it is asked for

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return DEVICE; }
  c10::Device getDevice() const override { return DEVICE; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override { return STREAM; }
  c10::Stream getNewStream(c10::Device, int) const override { return STREAM; }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return STREAM; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {
    *event = reinterpret_cast<void*>(1);
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
  void synchronizeEvent(void*) const override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
};
Guard guard;

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex current_device() const override { return 0; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  int getNumGPUs() const override { return 1; }
  void deviceSynchronize(c10::DeviceIndex) const override {}
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(at::kCPU); }
  c10::Allocator* getCUDADeviceAllocator() const override { return &memory; }
  c10::Device getDeviceFromPtr(void*) const override { return DEVICE; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::detail::createCPUGenerator(); }
};

// ---- operators of the device itself: new tensors, views and copies

at::Tensor on_host(const at::Tensor& x) {
  if (!x.defined() || !x.is_cuda()) return x;
  const auto options = at::TensorOptions().dtype(x.dtype()).device(at::kCPU);
  if (x.numel() == 0) return at::empty(x.sizes(), options);  // an operator may let it grow
  return at::from_blob(x.data_ptr(), x.sizes(), x.strides(), [x](void*) {}, options);
}

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &memory, KEYS, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), &memory,
                                           KEYS, c10::dtype_or_default(dtype));
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool) {
  auto to = on_host(self);
  to.copy_(on_host(source));
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool) {
  auto there = on_host(to);
  there.copy_(on_host(self));
  return to;
}

at::Scalar item(const at::Tensor& self) { return on_host(self).item(); }

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> offset) {
  std::optional<int64_t> from;
  if (offset) from = offset->guard_int(__FILE__, __LINE__);
  return at::cpu::as_strided(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), from);
}

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) {
  const auto wanted = at::infer_size_dv(C10_AS_INTARRAYREF_SLOW(size), self.numel());
  const auto stride = at::detail::computeStride(self.sizes(), self.strides(), wanted);
  TORCH_CHECK(stride.has_value(), "view size is not compatible with input tensor's size and stride");
  return at::cpu::as_strided(self, wanted, *stride, std::nullopt);
}

at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return as_strided(self, size, stride, std::nullopt);
}

const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat>) {
  auto* impl = self.unsafeGetTensorImpl();
  auto* storage = impl->storage().unsafeGetStorageImpl();
  const auto wanted = C10_AS_INTARRAYREF_SLOW(size);
  const size_t bytes = (impl->storage_offset() + c10::multiply_integers(wanted)) * self.dtype().itemsize();
  if (storage->nbytes() < bytes) {
    auto grown = memory.allocate(bytes);
    if (storage->nbytes()) memcpy(grown.get(), storage->data(), storage->nbytes());
    storage->set_data_ptr(std::move(grown));
    storage->set_nbytes(bytes);
  }
  impl->set_sizes_contiguous(wanted);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage storage, c10::SymInt offset, c10::SymIntArrayRef size,
                        c10::SymIntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_storage_offset(offset.guard_int(__FILE__, __LINE__));
  impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
  return self;
}

at::Tensor& set_source(at::Tensor& self, at::Storage storage) {
  const int64_t count = storage.nbytes() / self.dtype().itemsize();
  return set_storage(self, storage, 0, {c10::SymInt(count)}, {c10::SymInt(1)});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage(self, source.storage(), source.sym_storage_offset(), source.sym_sizes(), source.sym_strides());
}

// ---- every other operator: the CPU's, on tensors over the same memory, so that what is written in place is seen

using Tensors = std::vector<at::Tensor>;

// Indices may be the CPU's: a GPU takes them.
bool takes_indices(const std::string& name) {
  static const std::set<std::string> names = {"aten::index", "aten::index_put_", "aten::index_put",
                                              "aten::_index_put_impl_", "aten::_unsafe_index",
                                              "aten::_unsafe_index_put"};
  return names.count(name) > 0;
}

// Calls `change` on every tensor of a value and puts the results in their place.
template <typename Change>
void each(c10::IValue& value, const Change& change) {
  if (value.isTensor()) {
    value = change(value.toTensor());
  } else if (value.isTensorList()) {
    Tensors made;
    for (const at::Tensor& x : value.toTensorVector()) made.push_back(change(x));
    value = c10::IValue(c10::List<at::Tensor>(made));
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> made;
    for (const std::optional<at::Tensor>& x : value.toOptionalTensorVector())
      made.push_back(x ? std::optional<at::Tensor>(change(*x)) : std::nullopt);
    value = c10::IValue(made);
  }
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size(), first = stack->size() - count;
  bool on_device = false, elsewhere = false;
  std::vector<std::pair<at::Tensor, at::Tensor>> given;  // on the host, on the device
  std::optional<at::Device> wanted;
  const auto down = [&](const at::Tensor& x) -> at::Tensor {
    if (!x.defined()) return x;
    if (!x.is_cuda()) {
      elsewhere |= x.dim() > 0;
      return x;
    }
    on_device = true;
    for (auto& [host, device] : given)
      if (device.is_same(x)) return host;
    auto host = on_host(x);
    if (x.unsafeGetTensorImpl()->is_wrapped_number()) host.unsafeGetTensorImpl()->set_wrapped_number(true);
    given.emplace_back(host, x);
    return host;
  };
  for (size_t i = first; i < first + count; i++) {
    auto& value = (*stack)[i];
    if (value.isDevice()) {
      wanted = value.toDevice();
      value = c10::Device(at::kCPU);
    } else {
      each(value, down);
    }
  }
  TORCH_CHECK(!(on_device && elsewhere) || takes_indices(schema.name()),
              "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (",
              schema.name(), ")");
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  const bool stays = !wanted || wanted->is_cuda();
  const auto up = [&](const at::Tensor& x) -> at::Tensor {
    if (!x.defined() || !stays) return x;
    for (auto& [host, device] : given) {
      if (!host.is_same(x)) continue;
      if (host.sizes() != device.sizes()) {  // an output that the operator has resized
        resize_(device, c10::fromIntArrayRefSlow(host.sizes()), std::nullopt);
        on_host(device).copy_(host);
      }
      return device;
    }
    at::Tensor made = at::detail::empty_strided_generic(x.sizes(), x.strides(), &memory, KEYS, x.scalar_type());
    if (x.numel()) on_host(made).copy_(x);
    return made;
  };
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); i++) each((*stack)[i], up);
}

// Which attention scaled_dot_product_attention takes, after torch's rule for Ampere: the memory-efficient kernel (2)
// where the widths of a head are aligned, plain operations (0) otherwise.
int64_t choose(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>&, double,
               bool, std::optional<double>, bool grouped) {
  const bool half = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  if ((!half && q.scalar_type() != at::kFloat) || grouped) return 0;
  if (q.dim() != 4 || k.dim() != 4 || v.dim() != 4) return 0;
  const int64_t aligned = half ? 8 : 4;
  return q.size(-1) % aligned || v.size(-1) % aligned ? 0 : 2;
}

}  // namespace

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("copy_", copy_);
  m.impl("_copy_from", copy_from);
  m.impl("_local_scalar_dense", item);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("resize_", resize_);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Storage", set_source);
  m.impl("set_.source_Tensor", set_tensor);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::DeviceType::CUDA)].store(&guard);
  c10::SetAllocator(c10::DeviceType::CUDA, &memory, 1);
  // torch asked for its hooks while it was imported and keeps the object, which has no members: it is replaced.
  auto& hooks = at::detail::getCUDAHooks();
  if (!hooks.hasCUDA()) new (const_cast<at::CUDAHooksInterface*>(&hooks)) Hooks({});
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose);
  m.def("overruns", &overruns);
  m.def("on_host", &on_host);
}
