// Python calls to kernels that inductor wrote. Precompiled, with inductor's own header, for kernels.py.
#pragma once

#include <torch/csrc/inductor/cpp_prefix.h>

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>

namespace attest {

inline void* (*data_of)(PyObject*) = nullptr;  // the address of a tensor's first element, by torch's function

template <typename T>
T taken(PyObject* given) {
    if constexpr (std::is_pointer_v<T>) {
        return static_cast<T>(data_of(given));
    } else if constexpr (std::is_floating_point_v<T>) {
        return static_cast<T>(PyFloat_AsDouble(given));
    } else {
        return static_cast<T>(PyLong_AsLongLong(given));
    }
}

template <typename... A, size_t... I>
void pass(void (*kernel)(A...), PyObject* const* given, std::index_sequence<I...>) {
    const std::tuple<A...> arguments{taken<A>(given[I])...};
    if (!PyErr_Occurred()) {
        kernel(std::get<I>(arguments)...);
    }
}

template <typename... A>
PyObject* call(void (*kernel)(A...), PyObject* const* given, Py_ssize_t count) {
    try {
        if (count != static_cast<Py_ssize_t>(sizeof...(A))) {
            throw std::runtime_error("a kernel was called with another number of arguments than it has");
        }
        pass(kernel, given, std::index_sequence_for<A...>{});
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    if (PyErr_Occurred()) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

}  // namespace attest

#define ATTEST_KERNEL(name)                                                                       \
    {#name,                                                                                       \
     reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(                                       \
         +[](PyObject*, PyObject* const* given, Py_ssize_t count) -> PyObject* {                  \
             return attest::call(name, given, count);                                             \
         })),                                                                                     \
     METH_FASTCALL, nullptr}

// The name is the one under which inductor imports a file of kernels; it leaves the address in the environment.
#define ATTEST_KERNELS(...)                                                                       \
    PyMODINIT_FUNC PyInit_kernel() {                                                              \
        const char* address = std::getenv("_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR");             \
        if (address == nullptr) {                                                                 \
            PyErr_SetString(PyExc_ImportError, "inductor did not say where tensors have their data"); \
            return nullptr;                                                                       \
        }                                                                                         \
        attest::data_of = reinterpret_cast<void* (*)(PyObject*)>(std::strtoull(address, nullptr, 10)); \
        static PyMethodDef kernels[] = {__VA_ARGS__, {nullptr, nullptr, 0, nullptr}};             \
        static PyModuleDef module = {PyModuleDef_HEAD_INIT, "kernels", nullptr, -1, kernels};     \
        return PyModule_Create(&module);                                                          \
    }
