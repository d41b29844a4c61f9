#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "dlpack.h"
#include "lamina/base/error.h"
#include "lamina/cuda/runtime/stream.h"
#include "lamina/tensor/tensor.h"

namespace lamina::python {

namespace nb = nanobind;

/// What a method of an object that is not ours returns. Throws Error for what it raises, unless that is for others, as
/// Ctrl-C is.
template <class Method>
nb::object asked(std::string_view what, const Method& method) {
  try {
    return method();
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;
    detail::fail(what, ": cannot be read: ", nb::type_name(error.type()).c_str(), ": ", nb::str(error.value()).c_str());
  }
}

/// Whether an array's memory is the host's. Throws Error, beginning with `what`, where it does not say.
bool on_host(nb::handle array, std::string_view what);

/// An array of Python's whose memory Lamina may use while this lives. Make and destroy it with the GIL held. Move-only.
class Lent {
 public:
  enum class Access { read, write };

  /// Takes whatever has the buffer protocol or `__dlpack__`, without copying. Work on a GPU will be enqueued on
  /// `stream`, which is made to wait for the array's own. Throws Error, beginning with `what`, for an array that is not
  /// row-major without gaps, of another byte order, misaligned, read-only where it is to be written to, or of elements
  /// that Lamina has not; TypeError for what is no array.
  Lent(nb::handle object, std::string_view what, Access access, cuda::Stream stream = nullptr);
  Lent(Lent&& other) noexcept;
  Lent& operator=(Lent&&) = delete;
  ~Lent();

  const Tensor& tensor() const { return tensor_; }
  bool read_only() const {
    return buffer_.readonly != 0 || (versioned_ != nullptr && (versioned_->flags & dlpack::read_only) != 0);
  }

 private:
  /// False if the object refuses because it lies elsewhere, as CuPy's arrays do.
  bool borrow_buffer(nb::handle object, std::string_view what, Access access);
  void borrow_dlpack(nb::handle object, std::string_view what, Access access, cuda::Stream stream);
  void require_usable(std::string_view what, bool contiguous, bool read_only, Access access) const;
  void release();

  Tensor tensor_;
  Py_buffer buffer_{};
  dlpack::Managed* managed_ = nullptr;
  dlpack::VersionedManaged* versioned_ = nullptr;
};

}  // namespace lamina::python
