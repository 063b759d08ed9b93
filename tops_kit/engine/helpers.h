/* Host threads that help with launches. They sleep between them, and live as long as their engine. */
#ifndef TOPS_HELPERS_H
#define TOPS_HELPERS_H
#include <stdint.h>

typedef struct helpers helpers;
helpers *helpers_new(void); /* NULL: not on this machine */
void helpers_free(helpers *h);
/* Asks up to `count` helpers to run share(data, 1), share(data, 2), ...; returns at once. Who comes late does nothing. */
void helpers_call(helpers *h, int32_t count, void (*share)(void *data, int32_t number), void *data);
/* Nobody begins any more; waits for those that did. `look` is called every 50 ms meanwhile. */
void helpers_dismiss(helpers *h, int (*look)(void *), void *look_data);

#endif
