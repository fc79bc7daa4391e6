/* trial.cuh - finds the fastest of several ways to do a launch: they take turns on the launch's own data. */
#ifndef KERNELS_TRIAL_CUH
#define KERNELS_TRIAL_CUH

#include "launch.cuh"
#include <cmath>
#include <vector>

#define TRIAL_BEHIND 1.15f /* a way is out once it takes this many times as long as the fastest */

/* One way, on trial. */
struct way_trial {
    cudaGraphExec_t graph = nullptr; /* the launches of one timing; NULL: they are started one by one */
    int launches = 1;                /* number of launches in one timing */
    float milliseconds = INFINITY;   /* the shortest launch so far, in milliseconds */
    bool out = false;                /* it failed, or is too slow to be timed again */
};

/* The trials of one launch: `start(way)` starts it on `stream` and returns a cudaError_t. */
template <typename START> struct trials {
    START start;
    cudaStream_t stream;
    cudaEvent_t events[2];
    std::vector<way_trial> ways;

    int run_all(int way) {
        int code = 0;
        for (int i = 0; i < ways[way].launches && code == 0; i++) code = start(way);
        return code;
    }

    /* Milliseconds per launch; INFINITY if one fails. */
    float time_of(int way) {
        float milliseconds;
        if (cudaEventRecord(events[0], stream) != cudaSuccess ||
            (ways[way].graph ? int(cudaGraphLaunch(ways[way].graph, stream)) : run_all(way)) != cudaSuccess ||
            cudaEventRecord(events[1], stream) != cudaSuccess || cudaEventSynchronize(events[1]) != cudaSuccess ||
            cudaEventElapsedTime(&milliseconds, events[0], events[1]) != cudaSuccess)
            return INFINITY;
        return milliseconds / float(ways[way].launches);
    }

    /* Prepares a graph of launches that last about `lasting_ms` milliseconds. The runner times short launches in the
     * same way, and a way of several kernels may be faster or slower in a graph. */
    void gather(int way, float lasting_ms) {
        way_trial &it = ways[way];
        cudaGraph_t graph = nullptr;
        if (it.milliseconds >= lasting_ms) return;
        it.launches = int(fminf(ceilf(lasting_ms / fmaxf(it.milliseconds, 1e-3f)), 500));
        if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) return;
        const int code = run_all(way);
        if (cudaStreamEndCapture(stream, &graph) == cudaSuccess && code == 0 &&
            cudaGraphInstantiate(&it.graph, graph, 0) == cudaSuccess)
            cudaGraphUpload(it.graph, stream);
        else
            it.graph = nullptr;
        if (graph) cudaGraphDestroy(graph);
        cudaGetLastError(); /* clears the error of what cannot be captured */
    }

    /* Finds the fastest way. Ways take turns, so that a change of the clock hits all alike. The first launch of each
     * also loads its code, the second decides the number of launches in a timing; neither counts. */
    int fastest(int rounds, float lasting_ms) {
        int best = 0;
        const int count = int(ways.size());
        for (int way = 0; way < count; way++) {
            ways[way].milliseconds = fminf(time_of(way), time_of(way));
            ways[way].out = !(ways[way].milliseconds < INFINITY);
            if (!ways[way].out) gather(way, lasting_ms);
            ways[way].milliseconds = INFINITY;
        }
        for (int round = 0; round < rounds; round++) {
            for (int way = 0; way < count; way++) {
                if (ways[way].out) continue;
                ways[way].milliseconds = fminf(ways[way].milliseconds, time_of(way));
                if (ways[best].out || ways[way].milliseconds < ways[best].milliseconds) best = way;
            }
            for (way_trial &it : ways) it.out = it.out || it.milliseconds > TRIAL_BEHIND * ways[best].milliseconds;
        }
        return best;
    }

    /* Finds the fastest way of long launches. These draw the card's full power, and its clock may sink within a second:
     * the fastest is then the one that needs the least power. Each way that is not out runs for `lasting` milliseconds,
     * and the second half counts. */
    int fastest_that_lasts(int best, float lasting) {
        const float launch = ways[best].milliseconds;
        ways[best].milliseconds = INFINITY;
        for (int way = 0; way < int(ways.size()); way++) {
            if (ways[way].out) continue;
            ways[way].launches = int(ceilf(lasting / 2 / launch));
            const float first = time_of(way), second = time_of(way);
            ways[way].milliseconds = first < INFINITY ? second : INFINITY;
            if (ways[way].milliseconds < ways[best].milliseconds) best = way;
        }
        return best;
    }

    ~trials() {
        for (way_trial &it : ways)
            if (it.graph) cudaGraphExecDestroy(it.graph);
        for (cudaEvent_t event : events)
            if (event) cudaEventDestroy(event);
        cudaGetLastError(); /* clears the error of a way that failed */
    }
};

/* Returns the number of the fastest of `count` ways; 0 if all fail. Waits for the trials: in each of `rounds` every way
 * runs for `lasting_ms` milliseconds. If the best then takes `longest` or more, each way that is not out runs for
 * `lasting` milliseconds (0: never). */
template <typename START>
int trial_fastest(cudaStream_t stream, int count, int rounds, float lasting_ms, float longest, float lasting,
                  START start) {
    trials<START> all = {start, stream, {nullptr, nullptr}, std::vector<way_trial>(size_t(count))};
    if (cudaEventCreate(&all.events[0]) != cudaSuccess || cudaEventCreate(&all.events[1]) != cudaSuccess) return 0;
    const int best = all.fastest(rounds, lasting_ms);
    const float milliseconds = all.ways[best].milliseconds;
    return lasting > 0 && milliseconds >= longest && milliseconds < INFINITY ? all.fastest_that_lasts(best, lasting)
                                                                             : best;
}

#endif
