#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "data/stream_position.h"
#include "data/token_source.h"

namespace tg {

struct Document {
  std::int64_t begin = 0;   // of its BOS, in the stream
  std::int64_t tokens = 0;  // up to the next BOS or the shard's end
  int shard = 0;
  bool first = false;  // of the shard, in this pass
};

// The documents of a source, pass after pass. A thread looks for them ahead of who asks: whoever
// deals places does so under a lock that a step may wait for, and must not read files there.
class DocumentScan {
 public:
  // From the first document at or behind `position` of the stream on, about `ahead` tokens beyond
  // the last document that next() returned. `source` outlives it.
  DocumentScan(const TokenSource& source, std::int64_t bos_id, std::int64_t position,
               std::int64_t ahead);
  // Waits for the read that the thread is in.
  ~DocumentScan();

  // Blocks until the next one and its end are found. A shard in which none begins has one of 0
  // tokens. Errors: what reading throws, at this and every later call.
  Document next();

 private:
  void scan(std::int64_t position);
  bool scan_shard(const StreamPosition& from);
  bool hand_over(std::vector<Document>& found, std::int64_t scanned);
  bool has_room() const { return found_.empty() || scanned_ < taken_ + ahead_; }

  const TokenSource& source_;
  const std::uint16_t bos_id_;
  const std::int64_t ahead_, block_;  // tokens
  std::vector<std::uint16_t> tokens_;

  std::mutex mutex_;
  std::condition_variable room_, any_;
  std::deque<Document> found_;
  std::int64_t scanned_ = 0, taken_ = 0;  // positions in the stream: looked at, handed out
  std::exception_ptr error_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tg
