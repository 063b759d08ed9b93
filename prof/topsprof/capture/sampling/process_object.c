/* `Process`: one sampled process, for Python. Its methods may be called while a loop samples it; they wait for the end of a tick. */
#include "module.h"
#include "rows.h"

static const char *const state_names[] = {STATE_NAMES};
static const char *const wait_names[] = {WAIT_NAMES};
static const char *const end_names[] = {"", "exited", "executed", "denied"};

static void lock(process_object *self)
{
    if (pthread_mutex_trylock(&self->p.lock) == 0) return;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->p.lock);
    Py_END_ALLOW_THREADS
}

static void unlock(process_object *self)
{
    pthread_mutex_unlock(&self->p.lock);
}

static bool number(PyObject *from, const char *name, int64_t *to)
{
    PyObject *value = PyDict_GetItemString(from, name);
    if (!value) {
        PyErr_Format(PyExc_ValueError, "the layout lacks '%s'", name);
        return false;
    }
    *to = PyLong_AsLongLong(value);
    return !(*to == -1 && PyErr_Occurred());
}

static bool read_layout(py_layout *at, PyObject *layout)
{
#define F(name) if (!number(layout, #name, &at->name)) return false;
    LAYOUT_FIELDS(F)
#undef F
    bool fits = at->thread_top + 8 <= LAYOUT_BLOCK && at->thread_tid + 8 <= LAYOUT_BLOCK && at->thread_interp + 8 <= LAYOUT_BLOCK &&
        at->thread_frame + 8 <= LAYOUT_BLOCK && at->thread_cframe + 8 <= LAYOUT_BLOCK && at->code_size <= CODE_BLOCK &&
        at->frame_locals <= FRAME_BLOCK && at->frame_owner < at->frame_locals && at->code_firstlineno + 4 <= at->code_size &&
        at->code_linetable + 8 <= at->code_size && at->str_ascii <= 64 && at->bytes_data <= 64 && at->chunk_data <= 64 &&
        at->cframe_frame <= 24 && at->dict_keys <= 56 && at->task_name <= 248 && at->int_digits <= 28 && at->keys_indices <= 1024;
    int64_t first = at->interp_next, last = at->interp_next, gil = at->gil_locked - at->gil_holder;
    for (int k = 0; k < 2; k++) {
        int64_t field = k ? at->interp_threads_head : at->interp_collecting;
        if (field < first) first = field;
        if (field > last) last = field;
    }
    fits = fits && last - first <= 1000 && gil > 0 && gil <= 56;
    if (!fits) PyErr_SetString(PyExc_ValueError, "the layout makes no sense");
    return fits;
}

static bool read_ranges(process *p, PyObject *ranges)
{
    PyObject *list = PySequence_Fast(ranges, "ranges: a list of pairs");
    if (!list) return false;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(list);
    p->interpreter = calloc((size_t)count + 1, sizeof *p->interpreter);
    bool ok = p->interpreter != NULL;
    for (Py_ssize_t k = 0; ok && k < count; k++) {
        unsigned long long start, end;
        ok = PyArg_ParseTuple(PySequence_Fast_GET_ITEM(list, k), "KK", &start, &end);
        if (ok) p->interpreter[p->range_count++] = (text_range){start, end};
    }
    Py_DECREF(list);
    return ok;
}

static int process_init(PyObject *object, PyObject *args, PyObject *words)
{
    static char *names[] = {"pid", "layout", "runtime", "types", "interpreter", "depth", "native", NULL};
    process_object *self = (process_object *)object;
    PyObject *layout, *ranges;
    unsigned long long runtime, code, str, bytes, integer;
    int pid, depth, native;
    if (self->begun) {
        PyErr_SetString(PyExc_RuntimeError, "Process: already begun");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, words, "iO!K(KKKK)Oip", names, &pid, &PyDict_Type, &layout, &runtime, &code, &str, &bytes,
                                     &integer, &ranges, &depth, &native)) return -1;
    process *p = &self->p;
    if (depth < 1 || depth > 1 << 20) {
        PyErr_SetString(PyExc_ValueError, "depth: 1 to 1048576 frames");
        return -1;
    }
    if (!read_layout(&p->from.at, layout)) return -1;
    p->from.pid = pid;
    p->from.runtime = runtime;
    p->from.code_type = code;
    p->from.str_type = str;
    p->from.bytes_type = bytes;
    p->from.int_type = integer;
    p->native = native;
    p->period_ns = 1000000;
    p->given_codes = p->given_tasks = p->given_pointers = 1;
    self->begun = true;
    if (!process_begin(p, depth)) {
        PyErr_NoMemory();
        return -1;
    }
    return read_ranges(p, ranges) ? 0 : -1;
}

static void process_dealloc(PyObject *object)
{
    process_object *self = (process_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->begun) process_end(&self->p);
    type->tp_free(object);
    Py_DECREF(type);
}

/* Memory of a process as bytes, or None where it can't be read. */
static PyObject *read_bytes(pid_t pid, unsigned long long address, Py_ssize_t bytes)
{
    if (bytes < 0 || bytes > 1 << 28) {
        PyErr_SetString(PyExc_ValueError, "read: 0 to 2**28 bytes");
        return NULL;
    }
    PyObject *found = PyBytes_FromStringAndSize(NULL, bytes);
    if (!found || !bytes) return found;
    remote from = {.pid = pid};
    if (remote_read(&from, address, PyBytes_AS_STRING(found), (size_t)bytes)) return found;
    Py_DECREF(found);
    Py_RETURN_NONE;
}

PyObject *read_memory(PyObject *module, PyObject *args)
{
    (void)module;
    int pid;
    unsigned long long address;
    Py_ssize_t bytes;
    return PyArg_ParseTuple(args, "iKn", &pid, &address, &bytes) ? read_bytes(pid, address, bytes) : NULL;
}

static PyObject *process_read(PyObject *object, PyObject *args)
{
    unsigned long long address;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(args, "Kn", &address, &bytes)) return NULL;
    return read_bytes(((process_object *)object)->p.from.pid, address, bytes);
}

/* read_each(addresses, bytes) -> for each address its memory, or None; all in few calls */
static PyObject *process_read_each(PyObject *object, PyObject *args)
{
    PyObject *addresses, *found = NULL;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(args, "O!n", &PyList_Type, &addresses, &bytes)) return NULL;
    Py_ssize_t count = PyList_GET_SIZE(addresses);
    if (bytes < 1 || bytes > 4096 || count > 1 << 20) {
        PyErr_SetString(PyExc_ValueError, "read_each: up to 2**20 addresses, 1 to 4096 bytes");
        return NULL;
    }
    remote from = {.pid = ((process_object *)object)->p.from.pid};
    remote_item *items = calloc((size_t)count + 1, sizeof *items);
    uint8_t *data = malloc((size_t)(count * bytes) + 1);
    if (!items || !data) PyErr_NoMemory();
    else found = PyList_New(count);
    for (Py_ssize_t k = 0; found && k < count; k++) {
        items[k] = (remote_item){PyLong_AsUnsignedLongLong(PyList_GET_ITEM(addresses, k)), data + k * bytes, (size_t)bytes};
        if (PyErr_Occurred()) Py_CLEAR(found);
    }
    for (Py_ssize_t done = 0; found && done < count;) {
        int whole = remote_read_items(&from, items + done, (int)(count - done));
        for (int k = 0; found && k < whole; k++, done++) {
            PyObject *each = PyBytes_FromStringAndSize((const char *)items[done].to, bytes);
            if (!each) Py_CLEAR(found);
            else PyList_SET_ITEM(found, done, each);
        }
        if (found && done < count) PyList_SET_ITEM(found, done++, Py_NewRef(Py_None));
    }
    free(items);
    free(data);
    return found;
}

static PyObject *text(const char *utf8)
{
    return PyUnicode_DecodeUTF8(utf8, (Py_ssize_t)strlen(utf8), "replace");
}

static bool append(PyObject *list, PyObject *item)
{
    bool ok = item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return ok;
}

/* The frames in the walker: (frame address, code address, code id, line, owner, flags of the code), innermost first. */
static PyObject *frames_of(const process *p)
{
    const walker *w = &p->walker;
    PyObject *list = PyList_New(0);
    for (int k = 0; list && k < w->count; k++)
        if (!append(list, Py_BuildValue("KKiiii", w->frames[k].address, w->frames[k].code, w->ids[k], w->lines[k], w->frames[k].owner,
                                        p->codes.codes[w->ids[k]].flags))) Py_CLEAR(list);
    return list;
}

static PyObject *look_at(process *p, py_thread *t)
{
    sample_row row;
    os_state os = {.known = false};
    enum walk_result result = thread_look(p, t, &row, &os, false);
    if (result == WALK_NO_MEMORY) return PyErr_NoMemory();
    if (result == WALK_GONE) Py_RETURN_NONE;
    if (result == WALK_TORN) p->walker.count = 0;
    if (row.state == STATE_BLOCKED && os_stopped(&t->os)) row.wait = FOR_STOPPED;
    return Py_BuildValue("{s:L,s:K,s:K,s:i,s:s,s:s,s:i,s:i,s:i,s:N,s:K,s:O,s:O,s:N}", "interpreter", (long long)t->interp_id, "address",
                         t->state, "ident", t->ident, "tid", t->tid, "state", state_names[row.state], "wait", wait_names[row.wait],
                         "syscall", (int)row.syscall, "holder", row.holder, "flags", (int)row.flags, "task", text(row.task > 0 ? p->tasks.tasks[row.task].name : ""), "pc", os.pc,
                         "resolved", result == WALK_OK ? Py_True : Py_False, "cut", p->walker.cut ? Py_True : Py_False, "frames",
                         frames_of(p));
}

/* look() -> one dict a thread, of now; [] when the process is gone */
static PyObject *process_look(PyObject *object, PyObject *unused)
{
    (void)unused;
    process_object *self = (process_object *)object;
    process *p = &self->p;
    PyObject *list = PyList_New(0);
    bool changed = false;
    lock(self);
    p->rescan = true;
    p->time++;
    if (list && process_scan(p) && interps_read(p, &changed))
        for (int k = 0; list && k < p->thread_count; k++)
            if (!append(list, look_at(p, p->threads[k]))) Py_CLEAR(list);
    unlock(self);
    return list;
}

/* code(id) -> (qualified name, file, first line) */
static PyObject *process_code(PyObject *object, PyObject *args)
{
    process_object *self = (process_object *)object;
    int id;
    if (!PyArg_ParseTuple(args, "i", &id)) return NULL;
    PyObject *found = NULL;
    lock(self);
    if (id > 0 && id < self->p.codes.count) {
        const py_code *code = &self->p.codes.codes[id];
        found = Py_BuildValue("NNi", text(code->name), text(code->file), code->firstlineno);
    } else {
        PyErr_Format(PyExc_IndexError, "no code has the id %d", id);
    }
    unlock(self);
    return found;
}

/* resolve(code address, instruction address) -> (code id, line), or None where there is no such code */
static PyObject *process_resolve(PyObject *object, PyObject *args)
{
    process_object *self = (process_object *)object;
    unsigned long long address, instr;
    if (!PyArg_ParseTuple(args, "KK", &address, &instr)) return NULL;
    int32_t id = CODE_LOST;
    uint64_t code = address;
    PyObject *found = NULL;
    lock(self);
    process *p = &self->p;
    p->time++;
    if (!codes_resolve(&p->codes, &p->from, &code, &id, 1, 0, p->time)) PyErr_NoMemory();
    else if (id > 0) {
        int64_t offset = (int64_t)(instr - address) - p->from.at.code_size;
        bool inside = offset >= -2 && offset < (int64_t)p->codes.codes[id].length * 2;
        if (inside) found = Py_BuildValue("ii", id, code_line(&p->codes.codes[id], offset));
    }
    unlock(self);
    if (!found && !PyErr_Occurred()) Py_RETURN_NONE;
    return found;
}

static bool give(PyObject *to, const char *name, PyObject *value)
{
    bool ok = value && PyDict_SetItemString(to, name, value) == 0;
    Py_XDECREF(value);
    return ok;
}

static bool give_rows(PyObject *to, const sample_rows *rows)
{
#define C(name) \
    if (!give(to, #name, PyBytes_FromStringAndSize((const char *)rows->name, (Py_ssize_t)rows->count * (Py_ssize_t)sizeof *rows->name))) \
        return false;
    C(time_ns) C(weight_ns) C(tid) C(stack) C(native) C(task) C(holder) C(syscall) C(state) C(wait) C(flags)
#undef C
    return true;
}

static bool give_names(PyObject *to, process *p)
{
    PyObject *codes = PyList_New(0), *tasks = PyList_New(0);
    bool ok = codes && tasks;
    for (int32_t k = p->given_codes; ok && k < p->codes.count; k++) {
        const py_code *code = &p->codes.codes[k];
        ok = append(codes, Py_BuildValue("iNNii", k, text(code->name), text(code->file), code->firstlineno, code->flags));
    }
    for (int32_t k = p->given_tasks; ok && k < p->tasks.count; k++)
        ok = append(tasks, Py_BuildValue("iNK", k, text(p->tasks.tasks[k].name), p->tasks.tasks[k].address));
    ok = ok && PyDict_SetItemString(to, "codes", codes) == 0 && PyDict_SetItemString(to, "tasks", tasks) == 0;
    Py_XDECREF(codes);
    Py_XDECREF(tasks);
    return ok && give(to, "pointers", PyBytes_FromStringAndSize((const char *)(p->pointers + p->given_pointers),
                                                                (Py_ssize_t)sizeof(uint64_t) * (p->pointer_count - p->given_pointers))) &&
        give(to, "first_pointer", PyLong_FromLong(p->given_pointers)) &&
        give(to, "stacks", PyBytes_FromStringAndSize((const char *)(p->stacks.nodes + p->given_stacks),
                                                     (Py_ssize_t)sizeof(stack_node) * (p->stacks.count - p->given_stacks))) &&
        give(to, "first_stack", PyLong_FromLong(p->given_stacks));
}

/* "pauses": a list of (begin, end, thread, stack, generation); "collections": how many of each generation there were, of all interpreters */
static bool give_pauses(PyObject *to, process *p)
{
    PyObject *list = PyList_New(0);
    uint64_t total[GC_GENERATIONS] = {0};
    for (int k = 0; p->end != LIVES && k < p->interp_count; k++) pauses_end(&p->pauses, &p->interps[k].gc);
    for (int32_t k = 0; list && k < p->pauses.count; k++) {
        const gc_pause *pause = &p->pauses.pauses[k];
        if (!append(list, Py_BuildValue("LLiii", (long long)pause->begin_ns, (long long)pause->end_ns, pause->tid, pause->stack,
                                        pause->generation))) Py_CLEAR(list);
    }
    for (int k = 0; k < p->interp_count; k++)
        for (int g = 0; g < GC_GENERATIONS; g++) total[g] += p->interps[k].gc.counted[g];
    return give(to, "pauses", list) && give(to, "collections", Py_BuildValue("KKK", total[0], total[1], total[2]));
}

/* take() -> what was sampled since the last call: see sampler.Batch */
static PyObject *process_take(PyObject *object, PyObject *unused)
{
    (void)unused;
    process_object *self = (process_object *)object;
    process *p = &self->p;
    PyObject *found = PyDict_New();
    lock(self);
    if (found && give_rows(found, &p->rows) && give_names(found, p) && give_pauses(found, p)) {
        p->rows.count = p->pauses.count = 0;
        p->takes++;
        p->given_codes = p->codes.count;
        p->given_tasks = p->tasks.count;
        p->given_pointers = p->pointer_count;
        p->given_stacks = p->stacks.count;
    } else {
        Py_CLEAR(found);
    }
    unlock(self);
    return found;
}

static PyObject *process_counts_of(PyObject *object, PyObject *unused)
{
    (void)unused;
    process_object *self = (process_object *)object;
    process *p = &self->p;
    PyObject *found = PyDict_New();
    lock(self);
#define N(name) if (found && !give(found, #name, PyLong_FromUnsignedLongLong(p->counts.name))) Py_CLEAR(found);
    N(ticks) N(samples) N(unresolved) N(retries) N(cut) N(frames) N(native_named) N(native_unnamed) N(started) N(ended) N(rescans) N(gc)
    N(rows_lost)
#undef N
    if (found && !(give(found, "reads", PyLong_FromUnsignedLongLong(p->from.reads)) &&
                   give(found, "codes_replaced", PyLong_FromUnsignedLongLong(p->codes.replaced)) &&
                   give(found, "pauses_lost", PyLong_FromUnsignedLongLong(p->pauses.lost)) &&
                   give(found, "codes_lost", PyLong_FromUnsignedLongLong(p->codes.lost)) &&
                   give(found, "threads", PyLong_FromLong(p->thread_count)) && give(found, "rows", PyLong_FromLong(p->rows.count)) &&
                   give(found, "tasks_wanted", PyBool_FromLong(p->tasks.wanted)) && give(found, "perf_denied", PyBool_FromLong(p->perf_denied)))) Py_CLEAR(found);
    unlock(self);
    return found;
}

static PyObject *process_set_tasks(PyObject *object, PyObject *args)
{
    process_object *self = (process_object *)object;
    unsigned long long address;
    if (!PyArg_ParseTuple(args, "K", &address)) return NULL;
    lock(self);
    self->p.tasks.current = address;
    unlock(self);
    Py_RETURN_NONE;
}

static PyObject *process_get_end(PyObject *object, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(end_names[((process_object *)object)->p.end]);
}

static PyObject *process_get_tasks_wanted(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((process_object *)object)->p.tasks.wanted);
}

static PyMethodDef methods[] = {
    {"read", process_read, METH_VARARGS, "read(address, bytes): memory of the process as bytes, or None"},
    {"read_each", process_read_each, METH_VARARGS, "read_each(addresses, bytes): a list of bytes, or None for what can't be read"},
    {"look", process_look, METH_NOARGS, "look(): the threads of now, a dict each"},
    {"code", process_code, METH_VARARGS, "code(id): (qualified name, file, first line)"},
    {"resolve", process_resolve, METH_VARARGS, "resolve(code address, instruction address): (code id, line), or None"},
    {"take", process_take, METH_NOARGS, "take(): what was sampled since the last call"},
    {"counts", process_counts_of, METH_NOARGS, "counts(): totals so far"},
    {"set_tasks", process_set_tasks, METH_VARARGS, "set_tasks(address): the dict of asyncio's current tasks"},
    {0},
};

static PyGetSetDef attributes[] = {
    {"end", process_get_end, NULL, "why it ended: exited, executed (another program); '': it lives", NULL},
    {"tasks_wanted", process_get_tasks_wanted, NULL, "whether a coroutine ran, and where asyncio has its tasks is not known", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_init, process_init}, {Py_tp_dealloc, process_dealloc}, {Py_tp_methods, methods}, {Py_tp_getset, attributes},
    {Py_tp_doc, "A process whose Python threads are sampled."}, {0, NULL},
};
PyType_Spec process_spec = {"topsprof.capture.sampling._sampler.Process", sizeof(process_object), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};
