/* stream_sums.cu - stream.cu's kernels for sums and means. */
#include "stream_launch.cuh"

int stream_sums(const struct launch *launch, uint64_t mirror) {
    return dispatch_sum_lanes(launch->dtype, launch->args.reduce.operator_, [&](auto lane) -> int {
        return stream_start<typename decltype(lane)::type>(launch, mirror);
    });
}
