/* ways.cuh - finds by trial which of its tiles a variant takes.
 *
 * A model predicts most of a tile's cost, but not all: of the tiles for one product, the predicted best took up to a
 * third longer than the real one. So if a launch is to be timed many times, the few ways that the model thinks best are
 * tried first, and the fastest does all later launches like it. All ways that are tried give the same bits
 * (kernel_same_bits): which one wins, and whether there is a trial, never shows in a result. */
#ifndef KERNELS_WAYS_CUH
#define KERNELS_WAYS_CUH

#include "../../core/trial.cuh"
#include "recent.cuh"
#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

/* The limits of a trial. */
#define WAYS_MAX_COUNT   8    /* number of ways */
#define WAYS_MAX_RATIO   1.5  /* largest predicted time of a way, over the best one's */
#define WAYS_MAX_SECONDS 0.06 /* predicted seconds of all launches of a trial */
#define WAYS_ROUNDS      3    /* rounds of a trial */
#define WAYS_TOGETHER    0.3f /* milliseconds for which each way runs in a round */

/* The parameters that trials have chosen, by product. */
struct ways_memory {
    std::mutex mutex;
    recent<std::array<int, KERNEL_MAX_PARAMETERS>> known;

    /* Sets `choice` to the parameters chosen for this key; false: there was no trial. */
    bool recall(const matmul_key &key, int *choice) {
        mutex.lock();
        const auto *const found = known.find(key);
        if (found) std::copy(found->begin(), found->end(), choice);
        mutex.unlock();
        return found;
    }

    void keep(const matmul_key &key, const int *choice) {
        std::array<int, KERNEL_MAX_PARAMETERS> kept;
        std::copy_n(choice, kept.size(), kept.begin());
        mutex.lock();
        known.keep(key, kept);
        mutex.unlock();
    }
};

/* The ways to try: launches of the same product with other parameters and the same bits, the one with the shortest
 * predicted time first. Their number is limited so that the trial takes WAYS_MAX_SECONDS: each way is launched twice to
 * load and measure it, and once in each round. */
inline std::vector<struct launch> ways_of(const struct kernel *kernel, const struct launch *launch) {
    struct way {
        double seconds;
        struct launch configured;
    };
    std::vector<way> found;
    const double predicted = kernel->seconds(launch);
    struct launch other = *launch;
    other.timed = false;
    std::array<int, KERNEL_MAX_PARAMETERS> last_value = {}; /* the number of each parameter's words, less 1 */
    for (size_t i = 0; i < last_value.size() && kernel->parameters[i].name; i++)
        while (kernel->parameters[i].values[last_value[i] + 1]) last_value[i]++;
    for (size_t i = 0; i < last_value.size(); i++) other.choice[i] = last_value[i] > 0;
    for (bool more = true; more;) {
        const double seconds = kernel->refuses && kernel->refuses(&other) ? INFINITY : kernel->seconds(&other);
        if (seconds < WAYS_MAX_RATIO * predicted && kernel_same_bits(kernel, launch, &other) &&
            (!kernel->workspace || kernel->workspace(&other) <= kernel->workspace(launch)))
            found.push_back({seconds, other});
        more = false; /* the next combination of values; index 0, "auto", is left out */
        for (size_t i = 0; i < last_value.size() && !more; i++) {
            more = last_value[i] > 0 && other.choice[i] < last_value[i];
            other.choice[i] = more ? other.choice[i] + 1 : last_value[i] > 0;
        }
    }
    std::stable_sort(found.begin(), found.end(), [](auto &one, auto &two) { return one.seconds < two.seconds; });
    const double affordable = WAYS_MAX_SECONDS / (predicted * (2 + WAYS_ROUNDS));
    std::vector<struct launch> best;
    for (const way &each : found)
        if (double(best.size()) < std::min(affordable, double(WAYS_MAX_COUNT))) best.push_back(each.configured);
    return best;
}

/* Starts a launch. If its parameters are all "auto" and it is timed, it gets those that the trial of an equal launch
 * has chosen, after that trial if there was none yet. `start` starts any launch of the kernel, whose parameters all
 * have "auto" first. */
inline int ways_launch(const struct kernel *kernel, const struct launch *launch, int (*start)(const struct launch *)) {
    static struct ways_memory memory;
    const matmul_args &args = launch->args.matmul;
    const bool forced =
        std::any_of(std::begin(launch->choice), std::end(launch->choice), [](int value) { return value; });
    /* A trial writes C many times: it must not be added to. */
    if (!launch->timed || forced || !args.first || !args.last) return start(launch);
    struct launch chosen = *launch;
    int device = 0;
    cudaGetDevice(&device);
    const matmul_key key = matmul_cache_key(launch, device, kernel);
    cudaStreamCaptureStatus capture;
    if (!memory.recall(key, chosen.choice)) {
        if (cudaStreamIsCapturing(stream_of(launch), &capture) != cudaSuccess || capture != cudaStreamCaptureStatusNone)
            return start(launch);
        const std::vector<struct launch> ways = ways_of(kernel, launch);
        if (ways.size() > 1) {
            const int best = trial_fastest(stream_of(launch), int(ways.size()), WAYS_ROUNDS, WAYS_TOGETHER, 0, 0,
                                           [&](int way) { return start(&ways[size_t(way)]); });
            std::copy(std::begin(ways[size_t(best)].choice), std::end(ways[size_t(best)].choice), chosen.choice);
        }
        memory.keep(key, chosen.choice);
    }
    return start(&chosen);
}

#endif
