/* topstx_off.h - the interface of topstx.h without a recorder, for programs compiled with TOPSTX_DISABLE. */
#ifndef TOPSTX_OFF_H
#define TOPSTX_OFF_H
#define TOPSTXI_API static inline __attribute__((unused))
TOPSTXI_API topstx_domain topstx_domain_create(const char *name) { topstx_domain d = {0, 0, 0}; (void)name; return d; }
TOPSTXI_API void topstx_domain_range_push(topstx_domain d, const char *message) { (void)d; (void)message; }
TOPSTXI_API void topstx_domain_range_pop(topstx_domain d) { (void)d; }
TOPSTXI_API void topstx_range_push(const char *message) { (void)message; }
TOPSTXI_API void topstx_range_pop(void) {}
TOPSTXI_API void topstx_range_push_ex(const topstx_attributes *a) { (void)a; }
TOPSTXI_API uint32_t topstx_string_register(const char *text) { (void)text; return 0; }
TOPSTXI_API void topstx_range_push_registered(uint32_t string) { (void)string; }
TOPSTXI_API void topstx_mark_ex(const topstx_attributes *a) { (void)a; }
TOPSTXI_API void topstx_domain_mark(topstx_domain d, const char *message) { (void)d; (void)message; }
TOPSTXI_API void topstx_mark(const char *message) { (void)message; }
TOPSTXI_API topstx_range_id topstx_range_start_ex(const topstx_attributes *a) { (void)a; return 0; }
TOPSTXI_API topstx_range_id topstx_domain_range_start(topstx_domain d, const char *message) { (void)d; (void)message; return 0; }
TOPSTXI_API topstx_range_id topstx_range_start(const char *message) { (void)message; return 0; }
TOPSTXI_API void topstx_range_end(topstx_range_id id) { (void)id; }
TOPSTXI_API topstx_counter topstx_counter_create(topstx_domain d, const char *name, const char *unit) {
    topstx_counter c = {0, 0};
    (void)d; (void)name; (void)unit;
    return c;
}
TOPSTXI_API void topstx_counter_sample(topstx_counter c, double value) { (void)c; (void)value; }
TOPSTXI_API uint64_t topstx_now(void) { return 0; }
TOPSTXI_API void topstx_row(uint32_t kind, uint64_t begin, uint64_t end, const char *name, const void *body, uint32_t bytes) {
    (void)kind; (void)begin; (void)end; (void)name; (void)body; (void)bytes;
}
TOPSTXI_API void topstx_name_thread(uint32_t tid, const char *name) { (void)tid; (void)name; }
TOPSTXI_API void topstx_name_process(const char *name) { (void)name; }
TOPSTXI_API void topstx_profiler_start(void) {}
TOPSTXI_API void topstx_profiler_stop(void) {}
TOPSTXI_API int topstx_is_recording(void) { return 0; }
TOPSTXI_API topstx_payload topstx_payload_int(int64_t i) { topstx_payload p = {0, 0, {0}}; (void)i; return p; }
TOPSTXI_API topstx_payload topstx_payload_float(double f) { topstx_payload p = {0, 0, {0}}; (void)f; return p; }
TOPSTXI_API topstx_payload topstx_payload_string(const char *text) { topstx_payload p = {0, 0, {0}}; (void)text; return p; }
TOPSTXI_API topstx_payload topstx_payload_bytes(const void *data, uint32_t bytes) { topstx_payload p = {0, 0, {0}}; (void)data; (void)bytes; return p; }
TOPSTXI_API topstx_payload topstx_payload_json(const char *text) { topstx_payload p = {0, 0, {0}}; (void)text; return p; }
#define TOPSTX_PUSH(literal) ((void)0)
#define TOPSTX_POP() ((void)0)
#endif /* TOPSTX_OFF_H */
