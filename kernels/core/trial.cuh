/* trial.cuh - finds the fastest of several ways to do a launch: they take turns on the launch's own data. */
#ifndef KERNELS_TRIAL_CUH
#define KERNELS_TRIAL_CUH

#include "launch.cuh"
#include <cmath>
#include <vector>

#define TRIAL_MAX_SLOWDOWN 1.15f /* a way that takes longer than this multiple of the fastest's time is dropped */

/* The trial of one way. */
struct way_trial {
    cudaGraphExec_t graph = nullptr; /* the launches of one timing; NULL: they are started one by one */
    int launches = 1;                /* number of launches in one timing */
    float milliseconds = INFINITY;   /* the shortest launch so far, in milliseconds */
    bool dropped = false;            /* a launch failed, or took too long to be timed again */
};

/* The trials of one launch: `start(way)` starts the launch in that way on `stream`, and returns a cudaError_t. */
template <typename START> struct trials {
    START start;
    cudaStream_t stream;
    cudaEvent_t events[2];
    std::vector<way_trial> ways;

    /* Starts all launches of one timing. Returns 0 or the first cudaError_t. */
    int start_all(int way) {
        int code = 0;
        for (int i = 0; i < ways[way].launches && code == 0; i++) code = start(way);
        return code;
    }

    /* Does one timing and waits for it. Returns the milliseconds per launch; INFINITY if a launch fails. */
    float time_of(int way) {
        float milliseconds;
        if (cudaEventRecord(events[0], stream) != cudaSuccess ||
            (ways[way].graph ? int(cudaGraphLaunch(ways[way].graph, stream)) : start_all(way)) != cudaSuccess ||
            cudaEventRecord(events[1], stream) != cudaSuccess || cudaEventSynchronize(events[1]) != cudaSuccess ||
            cudaEventElapsedTime(&milliseconds, events[0], events[1]) != cudaSuccess)
            return INFINITY;
        return milliseconds / float(ways[way].launches);
    }

    /* Makes timings last about `lasting_ms` milliseconds: by a graph of many launches, up to 500, if one launch is
     * shorter. The runner times short launches in a graph too, and a way of several kernels may be faster or slower
     * there. If the launches cannot be captured, they are started one by one. */
    void make_graph(int way, float lasting_ms) {
        way_trial &trial = ways[way];
        cudaGraph_t graph = nullptr;
        if (trial.milliseconds >= lasting_ms) return;
        trial.launches = int(fminf(ceilf(lasting_ms / fmaxf(trial.milliseconds, 1e-3f)), 500));
        if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) return;
        const int code = start_all(way);
        if (cudaStreamEndCapture(stream, &graph) == cudaSuccess && code == 0 &&
            cudaGraphInstantiate(&trial.graph, graph, 0) == cudaSuccess)
            cudaGraphUpload(trial.graph, stream);
        else
            trial.graph = nullptr;
        if (graph) cudaGraphDestroy(graph);
        cudaGetLastError(); /* clears the error of what cannot be captured */
    }

    /* Returns the number of the fastest way. Ways take turns, so that a change of the clock hits all alike. The first
     * launch of a way also loads the way's code, the second decides the number of launches in a timing; neither
     * counts. */
    int fastest(int rounds, float lasting_ms) {
        int best = 0;
        const int count = int(ways.size());
        for (int way = 0; way < count; way++) {
            ways[way].milliseconds = fminf(time_of(way), time_of(way));
            ways[way].dropped = !(ways[way].milliseconds < INFINITY);
            if (!ways[way].dropped) make_graph(way, lasting_ms);
            ways[way].milliseconds = INFINITY;
        }
        for (int round = 0; round < rounds; round++) {
            for (int way = 0; way < count; way++) {
                if (ways[way].dropped) continue;
                ways[way].milliseconds = fminf(ways[way].milliseconds, time_of(way));
                if (ways[best].dropped || ways[way].milliseconds < ways[best].milliseconds) best = way;
            }
            const float longest = TRIAL_MAX_SLOWDOWN * ways[best].milliseconds;
            for (way_trial &trial : ways) trial.dropped = trial.dropped || trial.milliseconds > longest;
        }
        return best;
    }

    /* Returns the number of the fastest way of long launches, given that of single launches, `best`. Long launches draw
     * the card's full power, and its clock may sink within a second: then the way that needs the least power is the
     * fastest. Each way that is not dropped runs for about `lasting` milliseconds, of which the second half counts. */
    int fastest_that_lasts(int best, float lasting) {
        const float launch = ways[best].milliseconds;
        ways[best].milliseconds = INFINITY;
        for (int way = 0; way < int(ways.size()); way++) {
            if (ways[way].dropped) continue;
            ways[way].launches = int(ceilf(lasting / 2 / launch));
            const float first = time_of(way), second = time_of(way);
            ways[way].milliseconds = first < INFINITY ? second : INFINITY;
            if (ways[way].milliseconds < ways[best].milliseconds) best = way;
        }
        return best;
    }

    ~trials() {
        for (way_trial &trial : ways)
            if (trial.graph) cudaGraphExecDestroy(trial.graph);
        for (cudaEvent_t event : events)
            if (event) cudaEventDestroy(event);
        cudaGetLastError(); /* clears the error of a way that failed */
    }
};

/* Returns the number of the fastest of `count` ways; 0 if all fail. Waits for the trials: in each of `rounds` every way
 * that is not dropped runs for `lasting_ms` milliseconds. If the best launch then takes `longest` milliseconds or more,
 * each way that is left runs for `lasting` milliseconds (0: never). */
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
