/* crec_call_stack.h - calls begin and end: the entries of each thread (part of _crec.c; see crec_calls.h). */

static void free_stack(void *entries) { free(entries); }

static __attribute__((noinline)) int grow_stack(call_stack *k) {
    uint32_t capacity = k->capacity ? k->capacity * 2 : 256;
    call_entry *entries = capacity <= CALL_STACK_MAX ? (call_entry *)realloc(k->entries, capacity * sizeof *entries) : NULL;
    if (!entries) return 0;
    k->entries = entries;
    k->capacity = capacity;
    pthread_setspecific(tracing.key, entries);
    return 1;
}

/* Forget an entry whose end never came: its frame is gone. The call counts as not recorded. */
static __attribute__((noinline)) void drop_entry(call_stack *k, uint32_t at) {
    call_entry e = k->entries[at];
    topstxi_ring *r = topstxi_mine;
    memmove(k->entries + at, k->entries + at + 1, (k->count - at - 1) * sizeof e);
    k->count--;
    if (r && e.epoch == topstxi_state.epoch && r->epoch == e.epoch) {
        if (e.slot && e.slot != CALL_HIDDEN) topstxi_free_slot(r, e.slot);
        if (!e.site->orphan && e.slot != CALL_HIDDEN) skip_call(e.site);
    }
    leave_site(e.site);
}

/* Was the function called more than `limit` times within a second? Then its calls are only counted from now on. */
static __attribute__((noinline)) void look_at_rate(call_site *s) {
    uint64_t now = topstxi_monotonic();
    if (!s->window_ns || now - s->window_ns >= CALL_WINDOW_NS) {
        s->window_ns = now;
        s->calls = 1;
    } else if (s->calls > tracing.limit) {
        s->throttled = 1;
    }
}

/* A call that is not recorded begins while others of its function are open: so that its end is not taken for theirs. */
static __attribute__((noinline)) void hide_call(call_site *s, uintptr_t frame) {
    call_stack *k = &calls;
    call_entry *e;
    if (!s->open || (k->count == k->capacity && !grow_stack(k))) return;
    e = &k->entries[k->count++];
    memset(e, 0, sizeof *e);
    e->frame = frame;
    e->site = s;
    e->slot = CALL_HIDDEN;
    e->epoch = topstxi_state.epoch;
    s->open++;
}

/* A call begins or goes on, of a site that is traced. `instance` tells generators apart. */
static inline void begin_call(call_site *s, uintptr_t frame, uintptr_t instance, uint32_t flags) {
    call_stack *k = &calls;
    topstxi_ring *r;
    call_entry *e;
    uint32_t index;
    if (TOPSTXI_UNLIKELY(topstxi_recording() != TOPSTX_RECORDING_ON)) {
        hide_call(s, frame);
        return;
    }
    if (TOPSTXI_UNLIKELY(s->throttled)) {
        if (!(flags & TOPSTX_CALL_RESUMED)) skip_call(s);
        hide_call(s, frame);
        return;
    }
    if (TOPSTXI_UNLIKELY((++s->calls & (CALLS_LOOKED_AT - 1)) == 0 || s->calls == 1 || s->calls == tracing.limit + 1) && tracing.limit)
        look_at_rate(s);
    r = topstxi_ring_mine();
    if (TOPSTXI_UNLIKELY(!r)) return;
#if PY_VERSION_HEX < 0x030C0000
    while (TOPSTXI_UNLIKELY(k->count && k->entries[k->count - 1].frame == frame)) drop_entry(k, k->count - 1); /* of a frame that is gone */
#endif
    if (TOPSTXI_UNLIKELY(k->count == k->capacity) && !grow_stack(k)) {
        topstxi_count(&r->header->dropped);
        return;
    }
    e = &k->entries[k->count];
    index = r->free_head;
    if (TOPSTXI_UNLIKELY(!index) && topstxi_more_open(r)) index = r->free_head;
    e->frame = frame;
    e->site = s;
    e->slot = index;
    e->epoch = r->epoch;
    e->flags = (uint8_t)flags;
    e->task = 0;
    if (s->slices) {
        e->task = (uint32_t)(instance * 0x9E3779B97F4A7C15ull >> 32);
        if (!e->task) e->task = 1;
    }
    s->open++;
    if (TOPSTXI_LIKELY(index)) {
        topstx_open *o = &r->open[index - 1];
        r->free_head = o->next_free;
        o->context = 0;
        o->name = s->name;
        o->attr = s->attr;
        o->tid = r->tid;
        o->task = e->task;
        o->depth = (uint16_t)(k->count < 65535 ? k->count : 65535);
        o->kind = TOPSTX_KIND_CALL;
        o->flags = (uint8_t)flags;
        o->previous = o->following = 0;
        o->payload[0] = 0;
        k->count++;
        e->begin = topstxi_now();
        __atomic_store_n(&o->begin_tick, e->begin, __ATOMIC_RELEASE);
    } else {
        k->count++;
        e->begin = topstxi_now();
    }
}

/* The call on top of the stack ends. */
static inline void end_top(call_stack *k, uint32_t flags) {
    uint64_t end = topstxi_now();
    call_entry *e = &k->entries[--k->count];
    call_site *s = e->site;
    topstxi_ring *r = topstxi_mine;
    uint32_t slot = e->slot, epoch = e->epoch;
    if (TOPSTXI_LIKELY(r != NULL) && TOPSTXI_LIKELY(slot != CALL_HIDDEN) && TOPSTXI_LIKELY(epoch == topstxi_state.epoch) && TOPSTXI_LIKELY(r->epoch == epoch)) {
        r->header->last_tick = end;
        topstxi_put(r, e->begin, end, s->name, e->task, s->attr, k->count < 65535 ? k->count : 65535, TOPSTX_KIND_CALL, e->flags | flags);
        if (TOPSTXI_LIKELY(slot) && TOPSTXI_LIKELY(r->epoch == topstxi_state.epoch)) topstxi_free_slot(r, slot);
    }
    leave_site(s); /* else it began in a process that forked this one, or in a session that was left */
}

static int switches_stacks(void) { /* greenlets: calls of a thread need not end in turn */
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    return modules && PyDict_GetItemString(modules, "greenlet") != NULL;
}

/* The call is not on top: it is not recorded, or the ends of those above never came, or the program switches stacks. */
static __attribute__((noinline)) void end_below(call_stack *k, uintptr_t frame, uint32_t flags) {
    uint32_t at;
    for (at = k->count; at > 0 && k->entries[at - 1].frame != frame; at--) {
    }
    if (!at--) return;
    if (switches_stacks()) {
        call_entry e = k->entries[at];
        memmove(k->entries + at, k->entries + at + 1, (k->count - at - 1) * sizeof e);
        k->entries[k->count - 1] = e;
    } else {
        while (k->count > at + 1) drop_entry(k, k->count - 1);
    }
    end_top(k, flags);
}

/* A call ends or pauses. Whether its site is of further interest at this place. */
static inline int end_call(PyObject *code, uintptr_t frame, uint32_t flags) {
    call_stack *k = &calls;
    call_site *s;
    if (TOPSTXI_LIKELY(k->count) && TOPSTXI_LIKELY(k->entries[k->count - 1].frame == frame)) {
        end_top(k, flags);
        return 1;
    }
    s = site_of(code, NULL);
    if (!s) return 1;
    if (s->open) end_below(k, frame, flags);
    return s->traced && !(s->throttled && !s->open);
}

static inline void end_c_call(PyObject *function, uint32_t flags) {
    PyMethodDef *definition = definition_of(function);
    call_stack *k = &calls;
    uintptr_t frame = (uintptr_t)definition | 1;
    if (definition && k->count && k->entries[k->count - 1].frame == frame) end_top(k, flags);
}

static inline void begin_c_call(PyObject *function) {
    PyMethodDef *definition = definition_of(function);
    call_site *s = definition ? c_site_of(function, definition) : NULL;
    if (s && s->traced) begin_call(s, (uintptr_t)definition | 1, 0, TOPSTX_CALL_C);
}
