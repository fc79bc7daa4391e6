/* stream_moments.cu - stream.cu's kernels for variances and counts of NaNs. */
#include "stream_launch.cuh"

int stream_moments(const struct launch *launch, uint64_t mirror) {
    return dispatch_moment_lanes(launch->dtype, launch->args.reduce.operator_, [&](auto lane) -> int {
        return stream_start<typename decltype(lane)::type>(launch, mirror);
    });
}
