/* trial.cuh - finds the fastest of several ways to do a launch: they take turns on the launch's own data. */
#ifndef KERNELS_TRIAL_CUH
#define KERNELS_TRIAL_CUH

#include "launch.cuh"
#include <cmath>
#include <vector>

#define TRIAL_BEHIND 1.15f /* a way is out once it takes this many times as long as the fastest */

/* One way, on trial. */
struct trial {
    cudaGraphExec_t graph = nullptr; /* the launches of one timing; NULL: they are started one by one */
    int launches = 1;                /* number of launches in one timing */
    float least = INFINITY;          /* the shortest launch so far, in milliseconds */
    bool out = false;                /* it failed, or is too slow to be timed again */
};

/* The trials of one launch: `start(way)` starts it on `stream` and returns a cudaError_t. */
template <typename START> struct trials {
    START start;
    cudaStream_t stream;
    cudaEvent_t events[2];
    std::vector<trial> of;

    int run_all(int way) {
        int code = 0;
        for (int i = 0; i < of[way].launches && code == 0; i++) code = start(way);
        return code;
    }

    /* Milliseconds per launch; INFINITY if one fails. */
    float time_of(int way) {
        float milliseconds;
        if (cudaEventRecord(events[0], stream) != cudaSuccess ||
            (of[way].graph ? int(cudaGraphLaunch(of[way].graph, stream)) : run_all(way)) != cudaSuccess ||
            cudaEventRecord(events[1], stream) != cudaSuccess || cudaEventSynchronize(events[1]) != cudaSuccess ||
            cudaEventElapsedTime(&milliseconds, events[0], events[1]) != cudaSuccess)
            return INFINITY;
        return milliseconds / float(of[way].launches);
    }

    /* Prepares a graph of launches that last about `together` milliseconds. The runner times short launches in the same
     * way, and a way of several kernels may be faster or slower in a graph. */
    void gather(int way, float together) {
        trial &it = of[way];
        cudaGraph_t graph = nullptr;
        if (it.least >= together) return;
        it.launches = int(fminf(ceilf(together / fmaxf(it.least, 1e-3f)), 500));
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

    /* The ways take turns, so that a change of the clock hits all alike. The first launch of each also loads its code,
     * the second decides the number of launches in a timing; neither counts. */
    int fastest(int rounds, float together) {
        int best = 0;
        const int count = int(of.size());
        for (int way = 0; way < count; way++) {
            of[way].least = fminf(time_of(way), time_of(way));
            of[way].out = !(of[way].least < INFINITY);
            if (!of[way].out) gather(way, together);
            of[way].least = INFINITY;
        }
        for (int round = 0; round < rounds; round++) {
            for (int way = 0; way < count; way++) {
                if (of[way].out) continue;
                of[way].least = fminf(of[way].least, time_of(way));
                if (of[best].out || of[way].least < of[best].least) best = way;
            }
            for (trial &it : of) it.out = it.out || it.least > TRIAL_BEHIND * of[best].least;
        }
        return best;
    }

    /* Long launches draw the card's full power, and its clock may sink within a second: the fastest is then the one
     * that needs the least power. Each way that is not out runs for `lasting` milliseconds, and the second half
     * counts. */
    int fastest_that_lasts(int best, float lasting) {
        const float launch = of[best].least;
        of[best].least = INFINITY;
        for (int way = 0; way < int(of.size()); way++) {
            if (of[way].out) continue;
            of[way].launches = int(ceilf(lasting / 2 / launch));
            const float first = time_of(way), second = time_of(way);
            of[way].least = first < INFINITY ? second : INFINITY;
            if (of[way].least < of[best].least) best = way;
        }
        return best;
    }

    ~trials() {
        for (trial &it : of)
            if (it.graph) cudaGraphExecDestroy(it.graph);
        for (cudaEvent_t event : events)
            if (event) cudaEventDestroy(event);
        cudaGetLastError(); /* clears the error of a way that failed */
    }
};

/* Returns the number of the fastest of `count` ways; 0 if all fail. Waits for the trials: in each of `rounds` every way
 * runs for `together` milliseconds. If the best then takes `longest` or more, each way that is not out runs for
 * `lasting` milliseconds (0: never). */
template <typename START>
int trial_fastest(cudaStream_t stream, int count, int rounds, float together, float longest, float lasting,
                  START start) {
    trials<START> all = {start, stream, {nullptr, nullptr}, std::vector<trial>(size_t(count))};
    if (cudaEventCreate(&all.events[0]) != cudaSuccess || cudaEventCreate(&all.events[1]) != cudaSuccess) return 0;
    const int best = all.fastest(rounds, together);
    const float least = all.of[best].least;
    return lasting > 0 && least >= longest && least < INFINITY ? all.fastest_that_lasts(best, lasting) : best;
}

#endif
