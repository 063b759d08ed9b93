/* crec_calls_hook.h - 3.11: a function that evaluates frames, or a profile hook (part of _crec.c; see crec_calls.h). */

#define OP_YIELD 86    /* YIELD_VALUE */
#define OP_RESUME 151  /* RESUME */

typedef struct _PyInterpreterFrame { /* of CPython 3.11 */
    PyObject *function, *globals, *builtins, *locals;
    PyCodeObject *code;
    PyObject *frame_object;
    struct _PyInterpreterFrame *previous;
    _Py_CODEUNIT *at; /* the instruction before the next */
} raw_frame;

static int on_profile(PyObject *self, PyFrameObject *frame, int what, PyObject *argument);

/* Hook threads that are new; those that have another hook keep it. Returns how many were left alone. */
static __attribute__((noinline)) long hook_threads(void) {
    PyThreadState *t;
    long others = 0;
    tracing.newest = PyInterpreterState_ThreadHead(tracing.interpreter);
    for (t = tracing.newest; t; t = PyThreadState_Next(t)) {
        if (t->c_profilefunc == on_profile) continue;
        if (t->c_profilefunc) others++;
        else if (_PyEval_SetProfile(t, on_profile, NULL) < 0) forget_error();
    }
    return others;
}

static __thread uintptr_t stack_floor __attribute__((tls_model("initial-exec"))); /* addresses below it: the stack is half used */

static __attribute__((noinline)) uintptr_t find_stack_floor(void) {
    pthread_attr_t attributes;
    void *low = NULL;
    size_t bytes = 0;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    stack_floor = 1;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &low, &bytes) == 0 && here > (uintptr_t)low) stack_floor = (here + (uintptr_t)low) / 2;
        pthread_attr_destroy(&attributes);
    }
    return stack_floor;
}

/* Evaluates a frame. While there is such a function, calls of Python functions take C's stack, as they did before 3.11: where a program
 * goes deep, the profile hook takes over for good, which does without. */
static PyObject *on_evaluate(PyThreadState *thread, raw_frame *frame, int throwing) {
    PyCodeObject *code = frame->code;
    uintptr_t floor = stack_floor ? stack_floor : find_stack_floor();
    call_site *s;
    PyObject *result;
    uint32_t flags = 0, before = calls.count;
    if (TOPSTXI_UNLIKELY((uintptr_t)__builtin_frame_address(0) < floor)) {
        if (_PyInterpreterState_GetEvalFrameFunc(tracing.interpreter) == on_evaluate) {
            _PyInterpreterState_SetEvalFrameFunc(tracing.interpreter, tracing.evaluate);
            hook_threads();
        }
        return tracing.evaluate(thread, frame, throwing);
    }
    s = site_of((PyObject *)code, frame->globals);
    if (!s || !s->traced || !tracing.on) return tracing.evaluate(thread, frame, throwing);
    if (s->slices) {
        const _Py_CODEUNIT *first = (const _Py_CODEUNIT *)code->co_code_adaptive;
        if (frame->at < first) return tracing.evaluate(thread, frame, throwing); /* it makes the generator, and runs nothing */
        if (_Py_OPCODE(*frame->at) == OP_YIELD || throwing) flags = TOPSTX_CALL_RESUMED;
    }
    begin_call(s, (uintptr_t)frame, (uintptr_t)frame, flags);
    if (TOPSTXI_UNLIKELY(calls.count == before)) return tracing.evaluate(thread, frame, throwing); /* it is not recorded */
    result = tracing.evaluate(thread, frame, throwing);
    flags = 0;
    if (TOPSTXI_UNLIKELY(!result)) flags = TOPSTX_FLAG_ERROR;
    else if ((code->co_flags & SLICED) && _Py_OPCODE(*frame->at) == OP_YIELD) flags = TOPSTX_CALL_YIELDED;
    if (TOPSTXI_LIKELY(calls.count) && TOPSTXI_LIKELY(calls.entries[calls.count - 1].frame == (uintptr_t)frame)) end_top(&calls, flags);
    else end_below(&calls, (uintptr_t)frame, flags);
    return result;
}

/* The instruction that a frame is at, and its argument. */
static inline const unsigned char *instruction(PyFrameObject *frame, PyCodeObject *code) {
    int at = PyFrame_GetLasti(frame);
    return (const unsigned char *)code->co_code_adaptive + (at < 0 ? 0 : at);
}

static int on_profile(PyObject *self, PyFrameObject *frame, int what, PyObject *argument) {
    PyCodeObject *code;
    call_site *s;
    (void)self;
    if (TOPSTXI_UNLIKELY(what != PyTrace_CALL && what != PyTrace_RETURN) && !tracing.c_calls) return 0;
    code = PyFrame_GetCode(frame); /* the frame keeps it, too */
    Py_DECREF(code);
    switch (what) {
    case PyTrace_CALL:
        if (TOPSTXI_UNLIKELY(PyInterpreterState_ThreadHead(tracing.interpreter) != tracing.newest)) hook_threads();
        s = site_of((PyObject *)code, NULL);
        if (s && s->traced) {
            uint32_t flags = 0;
            if (s->slices) {
                const unsigned char *at = instruction(frame, code);
                if (at[0] != OP_RESUME || (at[1] & 3)) flags = TOPSTX_CALL_RESUMED;
            }
            begin_call(s, (uintptr_t)frame, (uintptr_t)frame, flags);
        }
        break;
    case PyTrace_RETURN: {
        uint32_t flags = argument ? 0 : TOPSTX_FLAG_ERROR;
        if (argument && (code->co_flags & SLICED) && instruction(frame, code)[0] == OP_YIELD)
            flags = TOPSTX_CALL_YIELDED;
        end_call((PyObject *)code, (uintptr_t)frame, flags);
        break;
    }
    case PyTrace_C_CALL:
        s = site_of((PyObject *)code, NULL);
        if (s && s->traced) begin_c_call(argument);
        break;
    case PyTrace_C_RETURN:
        end_c_call(argument, 0);
        break;
    case PyTrace_C_EXCEPTION:
        end_c_call(argument, TOPSTX_FLAG_ERROR);
        break;
    default:
        break;
    }
    if (TOPSTXI_UNLIKELY(interruption != NULL)) {
        raise_interruption();
        return -1;
    }
    return 0;
}

static PyObject *install_calls(void) {
    tracing.interpreter = PyInterpreterState_Get();
    if (tracing.c_calls) { /* which only the hook sees */
        tracing.evaluate = NULL;
        return PyLong_FromLong(hook_threads());
    }
    tracing.evaluate = _PyInterpreterState_GetEvalFrameFunc(tracing.interpreter);
    _PyInterpreterState_SetEvalFrameFunc(tracing.interpreter, on_evaluate);
    return PyLong_FromLong(0);
}

/* Returns how many threads had lost the hook to somebody else; of frames' evaluation: 1. */
static long uninstall_calls(void) {
    PyThreadState *t;
    long lost = 0;
    if (tracing.evaluate && _PyInterpreterState_GetEvalFrameFunc(tracing.interpreter) == on_evaluate) {
        _PyInterpreterState_SetEvalFrameFunc(tracing.interpreter, tracing.evaluate);
        return 0;
    }
    if (tracing.evaluate && !tracing.newest) return 1;
    for (t = PyInterpreterState_ThreadHead(tracing.interpreter); t; t = PyThreadState_Next(t)) {
        if (t->c_profilefunc != on_profile) lost++;
        else if (_PyEval_SetProfile(t, NULL, NULL) < 0) forget_error();
    }
    tracing.newest = NULL;
    return lost;
}
