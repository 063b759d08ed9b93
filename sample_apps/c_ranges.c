/* c_ranges.c - a C (or C++) program annotated with topstx.h: two threads share work, each phase is a range.
 *
 *     gcc -O2 -I "$(python -c 'import topstx; print(topstx.include_dir())')" c_ranges.c -o c_ranges -lpthread
 *     topsprof run --stats -- ./c_ranges
 *
 * Run without topsprof it does the same work and records nothing.
 */
#include "topstx.h"

#include <pthread.h>
#include <stdio.h>

enum { WORKERS = 2, STEPS = 20, CELLS = 20000 };

static double grid[WORKERS][CELLS];
static topstx_domain domain;
static topstx_counter progress;

static double relax(double *cells) {
    double sum = 0;
    TOPSTX_PUSH("relax");
    for (int i = 1; i < CELLS - 1; i++) {
        cells[i] = 0.5 * cells[i] + 0.25 * (cells[i - 1] + cells[i + 1]);
        sum += cells[i];
    }
    TOPSTX_POP();
    return sum;
}

static void *worker(void *argument) {
    int number = (int)(long)argument;
    char name[32];
    snprintf(name, sizeof name, "worker %d", number);
    topstx_name_thread(0, name);
    for (int step = 0; step < STEPS; step++) {
        topstx_attributes attributes = TOPSTX_ATTRIBUTES("step");
        attributes.domain = domain;
        attributes.category = "compute";
        attributes.color = 0xFF3366CCu;
        attributes.payload = topstx_payload_int(step);
        topstx_range_push_ex(&attributes);
        relax(grid[number]);
        topstx_counter_sample(progress, step + 1);
        topstx_domain_range_pop(domain);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[WORKERS];
    topstx_range_id whole = topstx_range_start("whole run");
    domain = topstx_domain_create("solver");
    progress = topstx_counter_create(domain, "steps done", "steps");
    topstx_name_thread(0, "main");
    topstx_range_push("set up");
    for (int w = 0; w < WORKERS; w++)
        for (int i = 0; i < CELLS; i++) grid[w][i] = i % 100;
    topstx_range_pop();
    topstx_mark("start");
    for (long w = 0; w < WORKERS; w++) pthread_create(&threads[w], NULL, worker, (void *)w);
    for (int w = 0; w < WORKERS; w++) pthread_join(threads[w], NULL);
    topstx_range_end(whole);
    printf("%.6f\n", grid[0][CELLS / 2] + grid[1][CELLS / 2]);
    return 0;
}
