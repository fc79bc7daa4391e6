/* stream_extremes.cu - stream.cu's kernels for min, max, argmin and argmax. */
#include "stream_launch.cuh"

int stream_extremes(const struct launch *launch, uint64_t mirror) {
    return dispatch_extreme_lanes(launch->dtype, launch->args.reduce.operator_, [&](auto lane) -> int {
        return stream_start<typename decltype(lane)::type>(launch, mirror);
    });
}
