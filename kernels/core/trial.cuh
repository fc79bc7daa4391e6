/* trial.cuh - which of several ways to do a launch is the fastest: they take turns on the launch's own data.
 *
 * A model tells most of what a tile costs, but not all: of the tiles for one product, the one that it calls the fastest
 * took up to a third longer than the best. So where a launch is to be timed many times, the few ways that the model
 * thinks best are tried first, and the fastest does all later launches like it. All that are tried give the same bits
 * (kernel_same_bits): which one wins, and whether there is a trial, never shows in a result. */
#ifndef KERNELS_TRIAL_CUH
#define KERNELS_TRIAL_CUH

#include "launch.cuh"
#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <vector>

#define TRIAL_BEHIND 1.15f /* who is that much slower than the fastest after a round is out */

/* One way, on trial. */
struct trial {
    cudaGraphExec_t graph = nullptr; /* its launches; NULL: one, or they cannot be captured */
    int launches = 1;                /* of one timing */
    float least = INFINITY;          /* milliseconds of a launch so far */
    bool out = false;
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

    /* Has as many launches timed together as last about `together` milliseconds, from a graph, as the runner times
     * short launches: a way of several kernels may be faster or slower there. */
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

    /* They take turns, so that a change of the clock hits all alike. The first launch of each also loads its code, the
     * second says how long a trial is; neither counts. */
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
     * that needs the least power. Those that are left work for `lasting` milliseconds each, of which the second half
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

/* The fastest of `count` ways; the first if all fail. Waits for the trials: `rounds` of so many milliseconds each, and
 * where the best takes `longest` or more, `lasting` (0: never) for each that is left. */
template <typename START>
int trial_fastest(cudaStream_t stream, int count, int rounds, float together, float longest, float lasting,
                  START start) {
    trials<START> all = {start, stream, {nullptr, nullptr}, std::vector<trial>(size_t(count))};
    if (cudaEventCreate(&all.events[0]) != cudaSuccess || cudaEventCreate(&all.events[1]) != cudaSuccess) return 0;
    const int best = all.fastest(rounds, together);
    const float least = all.of[best].least;
    return lasting > 0 && least >= longest && least < INFINITY ? all.fastest_that_lasts(best, lasting) : best;
}

/* ---- a kernel's own ways ----------------------------------------------------------------------------------------- */

#define TRIAL_WAYS     8    /* at most, */
#define TRIAL_NEAR     1.5  /* that the model expects to take no more than so many times the best, */
#define TRIAL_BUDGET   0.06 /* and so many seconds together */
#define TRIAL_ROUNDS   3    /* of */
#define TRIAL_TOGETHER 0.3f /* milliseconds */

/* All that the choice of a way depends on. */
using trial_facts = std::array<int64_t, 12>;

inline trial_facts trial_facts_of(const struct kernel *kernel, const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    int device = 0;
    cudaGetDevice(&device);
    return {int64_t(reinterpret_cast<intptr_t>(kernel)),
            device,
            launch->dtype,
            args.batch,
            args.m,
            args.n,
            args.k,
            args.a_batch_stride,
            args.b_batch_stride,
            args.transpose_a,
            args.transpose_b,
            launch->multiprocessors};
}

/* The parameters that trials chose; of the latest 64 problems. */
struct trial_memory {
    std::mutex mutex;
    struct {
        trial_facts of;
        std::array<int, KERNEL_MAX_PARAMETERS> choice;
    } known[64];
    unsigned next;

    bool recall(const trial_facts &facts, int *choice) {
        mutex.lock();
        const auto it = std::find_if(std::begin(known), std::end(known), [&](auto &one) { return one.of == facts; });
        const bool found = it != std::end(known);
        if (found) std::copy(it->choice.begin(), it->choice.end(), choice);
        mutex.unlock();
        return found;
    }

    void keep(const trial_facts &facts, const int *choice) {
        mutex.lock();
        auto &it = known[next++ % std::size(known)];
        it.of = facts;
        std::copy_n(choice, KERNEL_MAX_PARAMETERS, it.choice.begin());
        mutex.unlock();
    }
};

/* Launches that do the same with other parameters, the one that takes least time by the model first; behind that one
 * no more than what a trial is worth. */
inline std::vector<struct launch> trial_candidates(const struct kernel *kernel, const struct launch *launch) {
    std::vector<std::pair<double, struct launch>> found;
    const double predicted = kernel->seconds(launch);
    struct launch other = *launch;
    other.timed = false;
    std::array<int, KERNEL_MAX_PARAMETERS> last = {}; /* the number of each parameter's words, less 1 */
    for (size_t i = 0; i < last.size() && kernel->parameters[i].name; i++)
        while (kernel->parameters[i].values[last[i] + 1]) last[i]++;
    for (size_t i = 0; i < last.size(); i++) other.choice[i] = last[i] > 0;
    for (bool more = true; more;) {
        const double seconds = kernel->refuses && kernel->refuses(&other) ? INFINITY : kernel->seconds(&other);
        if (seconds < TRIAL_NEAR * predicted && kernel_same_bits(kernel, launch, &other) &&
            (!kernel->workspace || kernel->workspace(&other) <= kernel->workspace(launch)))
            found.push_back({seconds, other});
        more = false; /* the next of all combinations; no word is "auto", which is the first of each */
        for (size_t i = 0; i < last.size() && !more; i++) {
            more = last[i] > 0 && other.choice[i] < last[i];
            other.choice[i] = more ? other.choice[i] + 1 : last[i] > 0;
        }
    }
    std::stable_sort(found.begin(), found.end(), [](auto &one, auto &two) { return one.first < two.first; });
    const double room = TRIAL_BUDGET / (predicted * (2 + TRIAL_ROUNDS));
    std::vector<struct launch> best;
    for (const auto &it : found)
        if (double(best.size()) < std::min(room, double(TRIAL_WAYS))) best.push_back(it.second);
    return best;
}

/* Starts a launch whose parameters are left to the kernel, after a trial if it is worth one. `start` does any launch,
 * and all of kernel's parameters have "auto" first. */
inline int trial_launch(const struct kernel *kernel, const struct launch *launch, int (*start)(const struct launch *)) {
    static struct trial_memory memory;
    const matmul_args &args = launch->args.matmul;
    const bool forced =
        std::any_of(std::begin(launch->choice), std::end(launch->choice), [](int word) { return word; });
    /* A trial writes C many times: it must not be added to. */
    if (!launch->timed || forced || !args.first || !args.last) return start(launch);
    struct launch chosen = *launch;
    const trial_facts facts = trial_facts_of(kernel, launch);
    cudaStreamCaptureStatus capture;
    if (!memory.recall(facts, chosen.choice)) {
        if (cudaStreamIsCapturing(stream_of(launch), &capture) != cudaSuccess || capture != cudaStreamCaptureStatusNone)
            return start(launch);
        const std::vector<struct launch> ways = trial_candidates(kernel, launch);
        if (ways.size() > 1) {
            const int best = trial_fastest(stream_of(launch), int(ways.size()), TRIAL_ROUNDS, TRIAL_TOGETHER, 0, 0,
                                           [&](int way) { return start(&ways[size_t(way)]); });
            std::copy(std::begin(ways[size_t(best)].choice), std::end(ways[size_t(best)].choice), chosen.choice);
        }
        memory.keep(facts, chosen.choice);
    }
    return start(&chosen);
}

#endif
