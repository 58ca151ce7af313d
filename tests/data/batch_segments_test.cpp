// Segments that are passed on with the tokens of a batch.
#include <cstring>

#include "data/batch.h"
#include "data/prefetch.h"
#include "data/shard.h"
#include "tests/data/corpus.h"

namespace tg {
namespace {

using test::Tokens;
using Starts = std::vector<std::int32_t>;

// Eight rows of 101 tokens. A document begins at every 50th token, in the fourth row at every
// token.
struct Documents {
  Documents() {
    for (int i = 0; i < 8 * 101; ++i) {
      const bool begins = i / 101 == 3 || i % 101 % 50 == 0;
      tokens.push_back(begins ? 1 : 9);
    }
    test::write_file(dir / "fineweb_train_000000.bin", test::shard_bytes(tokens));
    set = std::make_unique<ShardSet>(dir.path(), "train", 16);
  }
  std::unique_ptr<TokenOrder> order() const {
    return std::make_unique<StreamOrder>(*set, 100, 8, /*rank=*/0, /*world_size=*/1);
  }
  test::TempDir dir;
  Tokens tokens;
  std::unique_ptr<ShardSet> set;
};

Starts boundaries_of(const HostBatch& batch) {
  Starts boundaries(static_cast<std::size_t>(batch.segment_capacity + 1));
  std::memcpy(boundaries.data(), batch.buffer.get() + batch.boundaries_begin(),
              boundaries.size() * sizeof(std::int32_t));
  return boundaries;
}

void expect_segments(BatchSource& source, const Documents& documents, std::int64_t limit) {
  HostBatch batch;
  for (int round = 0; round < 24; ++round) {
    ASSERT_TRUE(source.next(batch));
    const auto begin = documents.tokens.begin() + round % 8 * 101;
    ASSERT_EQ(test::narrow(test::listed(ids_at(batch.buffer.get(), 101, batch.id_bytes))),
              Tokens(begin, begin + 101));
    auto expected = segment_starts(batch.inputs(), 100, {.bos_id = 1, .limit = limit});
    EXPECT_EQ(batch.segments, std::ssize(expected));
    EXPECT_GE(batch.segment_capacity, batch.segments);
    expected.resize(static_cast<std::size_t>(batch.segment_capacity + 1), 100);
    ASSERT_EQ(boundaries_of(batch), expected) << round;
  }
}

TEST(BatchSegments, AreBehindTheTokensOfABatchUpToItsBuffersCapacity) {
  const Documents documents;
  for (const std::int64_t limit : {0, 25}) {
    const BatchLayout layout{.seq_len = 100, .segments = SegmentRule{.bos_id = 1, .limit = limit}};
    OrderedSource plain(documents.order(), layout);
    expect_segments(plain, documents, limit);
    for (const int workers : {1, 3}) {
      PrefetchSource ahead(documents.order(), layout, {.queue = 5, .workers = workers});
      expect_segments(ahead, documents, limit);
    }
  }
}

TEST(BatchSegments, ABufferWithoutRoomForThemIsReplacedByALargerOne) {
  const Documents documents;
  std::vector<std::int64_t> allocated;
  OrderedSource source(documents.order(), {.seq_len = 100, .segments = SegmentRule{.bos_id = 1}},
                       [&](std::int64_t bytes) {
                         allocated.push_back(bytes);
                         return allocate_on_heap(bytes);
                       });
  HostBatch batch;
  for (int round = 0; round < 16; ++round) {
    ASSERT_TRUE(source.next(batch));
    EXPECT_EQ(batch.segments, round % 8 == 3 ? 100 : 2);
    EXPECT_EQ(batch.segment_capacity, round < 3 ? 64 : 128);
  }
  EXPECT_EQ(allocated, (std::vector<std::int64_t>{204 + 4 * 65, 204 + 4 * 129}));
}

}  // namespace
}  // namespace tg
