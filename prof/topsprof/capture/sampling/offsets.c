/* Prints where CPython keeps things: one `name = offset` a line, of the Python whose headers it is compiled with.
 * `python -m topsprof.capture.sampling.derive PYTHON` compiles and runs it; the extension does not contain it. */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <internal/pycore_code.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_gil.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_moduleobject.h>
#include <internal/pycore_pystate.h>
#include <internal/pycore_runtime.h>
#include <stddef.h>
#include <stdio.h>

#define AT(name, type, field) printf("%s = %zd\n", name, (ssize_t)offsetof(type, field))
#define NUMBER(name, value) printf("%s = %zd\n", name, (ssize_t)(value))

static void runtime(void)
{
    AT("runtime_interp_head", _PyRuntimeState, interpreters.head);
    AT("interp_next", PyInterpreterState, next);
    AT("interp_id", PyInterpreterState, id);
    AT("interp_threads_head", PyInterpreterState, threads.head);
    AT("interp_collecting", PyInterpreterState, gc.collecting);
    AT("interp_collections", PyInterpreterState, gc.generation_stats[0].collections);
    NUMBER("collections_step", sizeof(struct gc_generation_stats));
#if PY_VERSION_HEX >= 0x030C0000
    NUMBER("runtime_gil", -1);
    AT("interp_gil", PyInterpreterState, ceval.gil);
    AT("interp_modules", PyInterpreterState, imports.modules);
#else
    AT("runtime_gil", _PyRuntimeState, ceval.gil);
    NUMBER("interp_gil", -1);
    AT("interp_modules", PyInterpreterState, modules);
#endif
    AT("gil_holder", struct _gil_runtime_state, last_holder);
    AT("gil_locked", struct _gil_runtime_state, locked);
    AT("gil_cond", struct _gil_runtime_state, cond);
    NUMBER("gil_size", sizeof(struct _gil_runtime_state));
}

static void thread(void)
{
    AT("thread_next", PyThreadState, next);
    AT("thread_interp", PyThreadState, interp);
#if PY_VERSION_HEX >= 0x030D0000
    NUMBER("thread_cframe", -1);
    NUMBER("cframe_frame", -1);
    AT("thread_frame", PyThreadState, current_frame);
#else
    AT("thread_cframe", PyThreadState, cframe);
    AT("cframe_frame", _PyCFrame, current_frame);
    NUMBER("thread_frame", -1);
#endif
    AT("thread_ident", PyThreadState, thread_id);
    AT("thread_tid", PyThreadState, native_thread_id);
    AT("thread_chunk", PyThreadState, datastack_chunk);
    AT("thread_top", PyThreadState, datastack_top);
    AT("chunk_previous", _PyStackChunk, previous);
    AT("chunk_size", _PyStackChunk, size);
    AT("chunk_used", _PyStackChunk, top);
    AT("chunk_data", _PyStackChunk, data);
#if PY_VERSION_HEX >= 0x030D0000
    AT("frame_code", _PyInterpreterFrame, f_executable);
    AT("frame_instr", _PyInterpreterFrame, instr_ptr);
#else
    AT("frame_code", _PyInterpreterFrame, f_code);
    AT("frame_instr", _PyInterpreterFrame, prev_instr);
#endif
    AT("frame_previous", _PyInterpreterFrame, previous);
    AT("frame_owner", _PyInterpreterFrame, owner);
    AT("frame_locals", _PyInterpreterFrame, localsplus);
    AT("frame_stacktop", _PyInterpreterFrame, stacktop);
}

static void code(void)
{
    NUMBER("code_size", offsetof(PyCodeObject, co_code_adaptive));
    AT("code_length", PyVarObject, ob_size);
    AT("code_flags", PyCodeObject, co_flags);
    AT("code_consts", PyCodeObject, co_consts);
    AT("code_filename", PyCodeObject, co_filename);
    AT("code_qualname", PyCodeObject, co_qualname);
    AT("code_linetable", PyCodeObject, co_linetable);
    AT("code_firstlineno", PyCodeObject, co_firstlineno);
    AT("code_names", PyCodeObject, co_localsplusnames);
    AT("code_kinds", PyCodeObject, co_localspluskinds);
    AT("code_traceable", PyCodeObject, _co_firsttraceable);
}

static void objects(void)
{
    AT("object_type", PyObject, ob_type);
    AT("var_size", PyVarObject, ob_size);
    AT("type_name", PyTypeObject, tp_name);
    AT("type_flags", PyTypeObject, tp_flags);
    AT("type_basicsize", PyTypeObject, tp_basicsize);
    AT("type_itemsize", PyTypeObject, tp_itemsize);
    AT("type_dictoffset", PyTypeObject, tp_dictoffset);
    AT("type_mro", PyTypeObject, tp_mro);
    AT("heap_keys", PyHeapTypeObject, ht_cached_keys);
    AT("str_hash", PyASCIIObject, hash);
    AT("str_length", PyASCIIObject, length);
    AT("str_state", PyASCIIObject, state);
    NUMBER("str_ascii", sizeof(PyASCIIObject));
    NUMBER("str_compact", sizeof(PyCompactUnicodeObject));
    AT("bytes_data", PyBytesObject, ob_sval);
    AT("float_value", PyFloatObject, ob_fval);
    AT("tuple_items", PyTupleObject, ob_item);
    AT("list_items", PyListObject, ob_item);
#if PY_VERSION_HEX >= 0x030C0000
    AT("int_tag", PyLongObject, long_value.lv_tag);
    AT("int_digits", PyLongObject, long_value.ob_digit);
#else
    AT("int_tag", PyVarObject, ob_size);
    AT("int_digits", PyLongObject, ob_digit);
#endif
    AT("dict_used", PyDictObject, ma_used);
    AT("dict_keys", PyDictObject, ma_keys);
    AT("dict_values", PyDictObject, ma_values);
    AT("keys_log2_size", struct _dictkeysobject, dk_log2_size);
    AT("keys_log2_bytes", struct _dictkeysobject, dk_log2_index_bytes);
    AT("keys_kind", struct _dictkeysobject, dk_kind);
    AT("keys_entries", struct _dictkeysobject, dk_nentries);
    AT("keys_indices", struct _dictkeysobject, dk_indices);
    AT("values_items", struct _dictvalues, values);
    AT("set_used", PySetObject, used);
    AT("set_mask", PySetObject, mask);
    AT("set_table", PySetObject, table);
    AT("weakref_object", PyWeakReference, wr_object);
    AT("module_dict", PyModuleObject, md_dict);
    AT("cell_value", PyCellObject, ob_ref);
    AT("function_code", PyFunctionObject, func_code);
    AT("function_closure", PyFunctionObject, func_closure);
    AT("method_function", PyMethodObject, im_func);
    AT("method_self", PyMethodObject, im_self);
    AT("gen_frame", PyGenObject, gi_iframe);
    AT("gen_state", PyGenObject, gi_frame_state);
    AT("gen_name", PyGenObject, gi_qualname);
}

int main(void)
{
    NUMBER("version", PY_VERSION_HEX);
#ifdef Py_GIL_DISABLED
    NUMBER("free_threaded", 1);
#endif
    runtime();
    thread();
    code();
    objects();
    return 0;
}
