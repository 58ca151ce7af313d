#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "data/token_source.h"

namespace tg {

struct DocumentPlace {
  std::int64_t begin = 0;   // stream position of its BOS
  std::int64_t tokens = 0;  // up to the next BOS or the end of the shard
  int shard = 0;
  bool first = false;  // the shard's first document in this pass
};

// Iterates over the documents of a source, pass after pass. A thread scans ahead of the caller,
// which deals places under a lock that a step may wait for, and must not read files there.
class DocumentScan {
 public:
  // Scans from the first document at or after stream position `position`, about `ahead` tokens
  // beyond the last document that next() returned. `source` must outlive this object.
  DocumentScan(const TokenSource& source, std::int64_t bos_id, std::int64_t position,
               std::int64_t ahead);
  // Waits for the thread's current read.
  ~DocumentScan();

  // Blocks until the next document and its end are found. A shard without documents yields one of 0
  // tokens. Throws what reading throws, now and at every later call.
  DocumentPlace next();

 private:
  template <class Id>
  void scan(std::int64_t position);
  template <class Id>
  bool scan_shard(const StreamPosition& from, std::vector<Id>& tokens);
  bool publish(std::vector<DocumentPlace>& found, std::int64_t scanned);
  bool has_room() const { return found_.empty() || scanned_ < taken_ + ahead_; }

  const TokenSource& source_;
  const TokenId bos_id_;
  const std::int64_t ahead_, block_;  // tokens

  std::mutex mutex_;
  std::condition_variable room_, any_;
  std::deque<DocumentPlace> found_;
  std::int64_t scanned_ = 0, taken_ = 0;  // stream positions: scanned, returned
  std::exception_ptr error_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tg
