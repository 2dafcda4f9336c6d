// Two CUDA devices in the memory of the host, for a PyTorch that was built without CUDA.
//
// One boxed function stands for every CUDA kernel. It refuses what CUDA refuses: tensors of several devices, generators
// of the CPU, products of integers, operators without a deterministic kernel where one is asked for. Then it calls the
// tensors tensors of the CPU, lets the CPU's kernel compute, and calls them tensors of CUDA again. What lies above the
// kernels is PyTorch's: composite operators, autograd, autocast, optimizers, files.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

using namespace c10;
using at::Tensor;

namespace {

constexpr int DEVICES = 2;
thread_local DeviceIndex current = 0;
void (*on_wait)(const char*) = nullptr;  // called with the name of an operator that makes the host wait for the device

Device device_number(int64_t index) { return Device(DeviceType::CUDA, index < 0 ? current : index); }

// ---------------------------------------------------------------------------------- devices, memory, random numbers

struct Guard final : impl::NoOpDeviceGuardImpl<DeviceType::CUDA> {
  Device getDevice() const override { return device_number(-1); }
  void uncheckedSetDevice(Device d) const noexcept override { if (d.has_index()) current = d.index(); }
  void setDevice(Device d) const override { uncheckedSetDevice(d); }
  Device exchangeDevice(Device d) const override { auto old = getDevice(); setDevice(d); return old; }
  Stream getStream(Device d) const noexcept override { return Stream(Stream::DEFAULT, device_number(d.index())); }
  Stream getDefaultStream(Device d) const override { return getStream(d); }
  Stream getNewStream(Device d, int) const override { return getStream(d); }
  Stream exchangeStream(Stream s) const noexcept override { return s; }
  DeviceIndex deviceCount() const noexcept override { return DEVICES; }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard);

struct Host final : Allocator {
  DataPtr allocate(size_t n) override {
    void* bytes = n ? std::malloc(n) : nullptr;
    return {bytes, bytes, &std::free, device_number(-1)};
  }
  DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, size_t n) const override { std::memcpy(to, from, n); }
} host;
REGISTER_ALLOCATOR(DeviceType::CUDA, &host);

struct Pinned final : Allocator {  // memory of the host that the device reads while the host goes on
  inline static std::set<const void*> all;
  DataPtr allocate(size_t n) override {
    void* bytes = std::malloc(n ? n : 1);
    all.insert(bytes);
    return {bytes, bytes, raw_deleter(), kCPU};
  }
  DeleterFnPtr raw_deleter() const override { return [](void* bytes) { all.erase(bytes); std::free(bytes); }; }
  void copy_data(void* to, const void* from, size_t n) const override { std::memcpy(to, from, n); }
} pinned;

struct DeviceGenerator final : GeneratorImpl {  // draws as a generator of the CPU
  at::Generator cpu = at::detail::createCPUGenerator();
  explicit DeviceGenerator(DeviceIndex i) : GeneratorImpl(device_number(i), DispatchKeySet(DispatchKey::CUDA)) {}
  void set_current_seed(uint64_t seed) override { cpu.set_current_seed(seed); }
  uint64_t current_seed() const override { return cpu.current_seed(); }
  uint64_t seed() override { return cpu.seed(); }
  void set_offset(uint64_t) override {}
  uint64_t get_offset() const override { return 0; }
  void set_state(const TensorImpl& state) override { cpu.unsafeGetGeneratorImpl()->set_state(state); }
  intrusive_ptr<TensorImpl> get_state() const override { return cpu.unsafeGetGeneratorImpl()->get_state(); }
  DeviceGenerator* clone_impl() const override {
    auto* copy = new DeviceGenerator(device().index());
    copy->cpu = cpu.clone();
    return copy;
  }
};

at::Generator& default_generator(int64_t i) {
  static at::Generator all[DEVICES] = {at::make_generator<DeviceGenerator>(0), at::make_generator<DeviceGenerator>(1)};
  return all[i < 0 ? current : i];
}

}  // namespace

namespace at {
struct CUDAHooks : CUDAHooksInterface {  // PyTorch asks for a class of this name, once, when it starts
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return DEVICES; }
  int getNumGPUs() const override { return DEVICES; }
  DeviceIndex current_device() const override { return current; }
  DeviceIndex getCurrentDevice() const override { return current; }
  Allocator* getCUDADeviceAllocator() const override { return &host; }
  Allocator* getPinnedMemoryAllocator() const override { return &pinned; }
  bool isPinnedPtr(const void* bytes) const override { return Pinned::all.count(bytes) > 0; }
  const Generator& getDefaultGenerator(DeviceIndex i = -1) const override { return default_generator(i); }
  Generator getNewGenerator(DeviceIndex i = -1) const override { return make_generator<DeviceGenerator>(i < 0 ? current : i); }
};
REGISTER_CUDA_HOOKS(CUDAHooks);
}  // namespace at

namespace c10d {
struct NoTimer final : Timer {  // DistributedDataParallel asks for one of the device
  explicit NoTimer(Device) {}
  std::optional<int64_t> measureDifference(Event, Event) override { return std::nullopt; }
};
C10_REGISTER_TYPED_CLASS(TimerRegistry, kCUDA, NoTimer);
}  // namespace c10d

namespace {

// ------------------------------------------------------------------------------- tensors under another device's name

struct Open : TensorImpl { using TensorImpl::device_opt_; using TensorImpl::key_set_; };

void rename(const Storage& storage, Device device) {
  const_cast<DataPtr&>(storage.unsafeGetStorageImpl()->data_ptr()).unsafe_set_device(device);
}

void rename(const Tensor& tensor, Device device) {
  auto* impl = static_cast<Open*>(tensor.unsafeGetTensorImpl());
  auto from = BackendComponent::CUDABit, to = BackendComponent::CPUBit;
  if (device.type() == DeviceType::CUDA) std::swap(from, to);
  impl->key_set_ = (impl->key_set_.remove_backend(from) - getAutocastRelatedKeySetFromBackend(from)) | DispatchKeySet(to) |
                   getAutocastRelatedKeySetFromBackend(to);
  impl->device_opt_ = device;
  if (tensor.is_sparse()) {
    auto* sparse = static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
    for (auto& part : {sparse->indices(), sparse->values()}) rename(part, device);
  } else if (tensor.is_sparse_csr()) {
    auto* rows = static_cast<at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
    for (auto& part : {rows->compressed_indices(), rows->plain_indices(), rows->values()}) rename(part, device);
  } else if (tensor.has_storage()) {
    rename(tensor.storage(), device);
  }
}

struct OnCPU {  // the tensors and storages of a call, tensors of the CPU for as long as it lasts
  std::vector<std::pair<Tensor, Device>> tensors;
  std::vector<std::pair<Storage, Device>> storages;
  void add(const Tensor& t) {
    if (!t.defined() || t.device().type() != DeviceType::CUDA) return;
    tensors.emplace_back(t, t.device());
    rename(t, kCPU);
  }
  void add(const Storage& s) {
    if (s.device().type() != DeviceType::CUDA) return;
    storages.emplace_back(s, s.device());
    rename(s, kCPU);
  }
  ~OnCPU() {
    for (auto& [t, device] : tensors) rename(t, device);
    for (auto& [s, device] : storages) rename(s, device);
  }
};

// ----------------------------------------------------------------------------------------- what CUDA refuses, and waits

using Names = std::set<std::string>;
const Names COPIES = {"copy_", "_copy_from", "_copy_from_and_resize"};
constexpr size_t STAGED = 1 << 16;  // bytes of pageable memory that are copied without waiting (CUDA's programming guide)
const Names INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_pack_padded_sequence"};
const Names TAKES_NUMBERS = {"masked_fill", "masked_fill_", "fill_", "where", "index_fill", "index_fill_", "lerp", "lerp_",
                             "clamp", "clamp_min", "clamp_max", "searchsorted", "_foreach_mul", "_foreach_mul_",
                             "_foreach_div_", "_foreach_add_"};
const Names PRODUCTS = {"mm", "bmm", "addmm", "addmm_", "baddbmm", "baddbmm_", "mv", "addmv", "addmv_", "dot", "vdot", "addr",
                        "addbmm", "_addmm_activation"};
const Names WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2", "unique_dim",
                     "unique_consecutive", "bincount", "multinomial"};

struct Call {
  const OperatorHandle& op;
  std::string name, overload;
  std::vector<IValue> values;
  std::vector<std::pair<Tensor, size_t>> tensors;  // each with the number of its argument
  std::optional<Device> asked, found;

  Call(const OperatorHandle& op, const torch::jit::Stack& stack) : op(op) {
    name = op.operator_name().name;
    name = name.substr(name.find("::") + 2);
    overload = op.operator_name().overload_name;
    values.assign(stack.end() - op.schema().arguments().size(), stack.end());
    for (size_t i = 0; i < values.size(); i++) {
      const auto& v = values[i];
      auto add = [&](const Tensor& t) { if (t.defined()) tensors.emplace_back(t, i); };
      if (v.isTensor()) add(v.toTensor());
      else if (v.isTensorList()) for (const Tensor& t : v.toTensorVector()) add(t);
      else if (v.isOptionalTensorList()) for (const auto& o : v.toOptionalTensorList()) { std::optional<Tensor> t = o; if (t) add(*t); }
      else if (v.isList()) for (const IValue& inner : v.toListRef()) { if (inner.isTensorList()) for (const Tensor& t : inner.toTensorVector()) add(t); }
      else if (v.isDevice()) asked = v.toDevice();
    }
    for (auto& [t, i] : tensors) if (!found && t.is_cuda()) found = t.device();
  }

  const Argument& argument(size_t i) const { return op.schema().arguments()[i]; }

  IValue given(const char* wanted) const {
    for (size_t i = 0; i < values.size(); i++) if (argument(i).name() == wanted) return values[i];
    return {};
  }

  bool has_cpu() const { for (auto& [t, i] : tensors) if (t.is_cpu()) return true; return false; }

  void check_devices() const {
    for (auto& [t, i] : tensors) {
      if (COPIES.count(name) || t.device() == found) continue;
      const auto& which = argument(i).name();
      bool written = argument(i).alias_info() && argument(i).alias_info()->isWrite();
      bool index = INDEXED.count(name) && (which == "indices" || which == "lengths");
      bool number = t.dim() == 0 && !written &&
          (t.unsafeGetTensorImpl()->is_wrapped_number() || op.hasTag(at::Tag::pointwise) || TAKES_NUMBERS.count(name) ||
           (INDEXED.count(name) && which == "values"));
      TORCH_CHECK(t.is_cpu() && (index || number), "Expected all tensors to be on the same device, but found ",
                  found ? found->str() : "cuda", " and ", t.device(), " (argument ", which, " of ", name, ")");
    }
  }

  void check_kernel() const {
    if (PRODUCTS.count(name))
      for (auto& [t, i] : tensors)
        TORCH_CHECK(isFloatingType(t.scalar_type()), "\"", name, "_cuda\" not implemented for '", toString(t.scalar_type()), "'");
    bool real = !tensors.empty() && isFloatingType(tensors[0].first.scalar_type());
    bool undetermined = ((name == "cumsum" || name == "cumsum_") && real) || (name == "bincount" && tensors.size() > 1) ||
        name == "put_" || name == "histc" || name == "kthvalue" || (name == "median" && overload.rfind("dim", 0) == 0) ||
        name == "nll_loss2d_forward" || (name.rfind("scatter_reduce", 0) == 0 && given("reduce").toStringRef() == "prod");
    if (undetermined) at::globalContext().alertNotDeterministic(name + "_cuda");
  }

  bool waits() const {
    if (WAITS.count(name)) return true;
    if (COPIES.count(name)) {  // into memory of the host always, from it where it is pageable or the caller asks to wait
      bool to_host = tensors[0].first.is_cpu(), from_host = tensors[1].first.is_cpu();
      bool staged = !from_host || tensors[1].first.nbytes() <= STAGED || tensors[1].first.is_pinned();
      return to_host || (from_host && !(given("non_blocking").toBool() && staged));
    }
    if (name == "repeat_interleave") return given("output_size").isNone();
    if (name == "index" || name == "index_put_" || name == "_index_put_impl_")
      for (auto& [t, i] : tensors)
        if (argument(i).name() == "indices" && (t.scalar_type() == kBool || t.scalar_type() == kByte)) return true;
    return false;
  }
};

// ------------------------------------------------------------------------------------------ the one kernel of them all

void kernel(const OperatorHandle& op, torch::jit::Stack* stack) {
  Call call(op, *stack);
  call.check_devices();
  call.check_kernel();
  if (on_wait && call.waits()) on_wait(call.name.c_str());
  Device device = call.asked.value_or(call.found.value_or(device_number(-1)));
  if (device.type() == DeviceType::CUDA) {
    device = device_number(device.index());
    TORCH_CHECK(device.index() < DEVICES, "CUDA error: invalid device ordinal");
  }
  OnCPU on_cpu;
  for (auto& [t, i] : call.tensors) on_cpu.add(t);
  auto base = stack->size() - call.values.size();
  for (size_t i = 0; i < call.values.size(); i++) {
    auto& v = (*stack)[base + i];
    if (v.isDevice()) v = Device(kCPU);
    if (v.isStorage()) on_cpu.add(v.toStorage());
    if (v.isGenerator() || call.argument(i).type()->str() == "Generator?") {
      const auto& generator = v.isNone() ? default_generator(device.index()) : v.toGenerator();
      TORCH_CHECK(generator.device().type() == DeviceType::CUDA, "Expected a 'cuda' device type for generator but found 'cpu'");
      v = static_cast<DeviceGenerator*>(generator.unsafeGetGeneratorImpl())->cpu;
    }
  }
  {
    impl::ExcludeDispatchKeyGuard below(autograd_dispatch_keyset_with_ADInplaceOrView | autocast_dispatch_keyset);
    op.callBoxed(stack);
  }
  auto is_argument = [&](const Tensor& t) {
    for (auto& [a, i] : call.tensors) if (a.is_same(t)) return true;
    return false;
  };
  auto name_result = [&](const Tensor& t) {
    if (t.defined() && device.type() == DeviceType::CUDA && !is_argument(t)) rename(t, device);
  };
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); i++) {
    auto& v = (*stack)[i];
    if (v.isTensor()) name_result(v.toTensor());
    else if (v.isTensorList()) for (const Tensor& t : v.toTensorVector()) name_result(t);
    else if (v.isCustomClass() && call.op.operator_name().name.rfind("c10d::", 0) == 0)
      v.toCustomClass<c10d::Work>()->wait();  // NCCL's would go on beside the host
  }
}

using Boxed = torch::CppFunction;
TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(Boxed::makeFromBoxedFunction<&kernel>()); }
TORCH_LIBRARY_IMPL(_, SparseCUDA, m) { m.fallback(Boxed::makeFromBoxedFunction<&kernel>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrCUDA, m) { m.fallback(Boxed::makeFromBoxedFunction<&kernel>()); }

// ------------------------------------------------------------------ operators that only CUDA has, or that ask for it

using Three = std::tuple<Tensor, Tensor, Tensor>;

Three lstm_cell(const Tensor& x, const Tensor& h, const Tensor& c, const std::optional<Tensor>& bx, const std::optional<Tensor>& bh) {
  auto sum = x + h;
  if (bx && bx->defined()) sum = sum + *bx + *bh;
  auto gate = sum.chunk(4, 1);
  auto i = gate[0].sigmoid(), f = gate[1].sigmoid(), g = gate[2].tanh(), o = gate[3].sigmoid();
  auto after = f * c + i * g;
  return {o * after.tanh(), after, at::cat({i, f, g, o}, 1)};
}

Three lstm_cell_backward(const std::optional<Tensor>& dh, const std::optional<Tensor>& dc, const Tensor& c, const Tensor& after,
                         const Tensor& gates, bool bias) {
  auto gate = gates.chunk(4, 1);
  auto i = gate[0], f = gate[1], g = gate[2], o = gate[3], t = after.tanh();
  auto up = dh && dh->defined() ? *dh : at::zeros_like(c);
  auto cell = (dc && dc->defined() ? *dc : at::zeros_like(c)) + up * o * (1 - t * t);
  auto d = at::cat({cell * g * i * (1 - i), cell * c * f * (1 - f), cell * i * (1 - g * g), up * t * o * (1 - o)}, 1);
  return {d, cell * f, bias ? d.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& x, const Tensor& h, const Tensor& before, const std::optional<Tensor>& bx,
                                    const std::optional<Tensor>& bh) {
  auto a = (bx && bx->defined() ? x + *bx : x).chunk(3, 1), b = (bh && bh->defined() ? h + *bh : h).chunk(3, 1);
  auto r = (a[0] + b[0]).sigmoid(), z = (a[1] + b[1]).sigmoid(), n = (a[2] + r * b[2]).tanh();
  return {n + z * (before - n), at::cat({r, z, n, before, b[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& d, const Tensor& kept, bool bias) {
  auto part = kept.chunk(5, 1);
  auto r = part[0], z = part[1], n = part[2];
  auto dn = d * (1 - z) * (1 - n * n), dz = d * (part[3] - n) * z * (1 - z), dr = dn * part[4] * r * (1 - r);
  auto dx = at::cat({dr, dz, dn}, 1), dh = at::cat({dr, dz, dn * r}, 1);
  return {dx, dh, d * z, bias ? dx.sum(0) : Tensor(), bias ? dh.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor> dropout(const Tensor& x, double rate, std::optional<bool> train) {
  if (train && !*train) return {x.clone(), at::ones_like(x, at::kBool)};
  auto mask = at::empty_like(x).bernoulli_(1 - rate);  // of the device's generator
  return {x * mask * (rate < 1 ? 1 / (1 - rate) : 0.0), mask.to(at::kBool)};
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
  m.impl("native_dropout", dropout);
  m.impl("copy_", Boxed::makeFromBoxedFunction<&kernel>());
}

void before_composite(torch::Library& m, DispatchKey cpu) {  // where a composite kernel would come before the fallback
  for (auto& name : Dispatcher::singleton().getAllOpNames()) {
    auto op = Dispatcher::singleton().findSchema(name);
    if (op && name.name.rfind("aten::", 0) == 0 && op->hasKernelForDispatchKey(cpu) &&
        op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd))
      m.impl((name.name + (name.overload_name.empty() ? "" : "." + name.overload_name)).c_str(),
             Boxed::makeFromBoxedFunction<&kernel>());
  }
}

TORCH_LIBRARY_IMPL(aten, SparseCUDA, m) { before_composite(m, DispatchKey::SparseCPU); }
TORCH_LIBRARY_IMPL(aten, SparseCsrCUDA, m) { before_composite(m, DispatchKey::SparseCsrCPU); }

TORCH_LIBRARY_IMPL(c10d, CUDA, m) {  // gloo reads memory of the host alone
  for (auto name : {"allreduce_", "broadcast_", "allgather_", "_allgather_base_", "barrier"})
    m.impl(name, Boxed::makeFromBoxedFunction<&kernel>());
}

TORCH_LIBRARY(simulated, m) {
  m.def("set_device(int index) -> int", [](int64_t i) -> int64_t { auto old = current; if (i >= 0) current = i; return old; });
  m.def("seed(int seed) -> ()", [](int64_t seed) { for (int i = 0; i < DEVICES; i++) default_generator(i).set_current_seed(seed); });
  m.def("state(int index) -> Tensor", [](int64_t i) -> Tensor { return default_generator(i).get_state(); });
  m.def("set_state(int index, Tensor state) -> ()", [](int64_t i, Tensor state) { default_generator(i).set_state(state); });
}

}  // namespace

extern "C" void lmzoo_on_wait(void (*call)(const char*)) { on_wait = call; }
