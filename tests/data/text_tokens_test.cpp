#include "data/text_tokens.h"

#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <future>
#include <thread>

#include "data/shard.h"
#include "data/sharding.h"
#include "tests/base/asleep.h"
#include "tests/data/shards.h"
#include "tests/files/packed.h"

namespace tg {
namespace {

using test::error_of;
using test::expect_part;
using test::expect_start;
using test::TempDir;
using test::write_file;
using Files = std::vector<std::string>;
using Tokens = std::vector<std::uint16_t>;

const std::string model = std::string(TEST_DATA_DIR) + "/data_bpe.model";

std::string sentence(int number) {
  return fmt::format(
      "Document {} grants you a copyright licence\nto reproduce the work, über alles.", number);
}

std::string txt(int documents, int first = 0) {
  std::string text;
  for (int i = 0; i < documents; ++i) text += sentence(first + i) + "\n\n";
  return text;
}

std::string jsonl(int documents) {
  std::string lines;
  for (int i = 0; i < documents; ++i) {
    lines +=
        fmt::format("{{\"id\": {}, \"text\": \"Line {}\\n\\nof the \\u00fcber licence\"}}\n", i, i);
  }
  return lines;
}

// A document that is tokenized in parts.
std::string long_document() {
  std::string text;
  for (int i = 0; i < 400; ++i) text += sentence(i) + "\n";
  return text + "\n";
}

Tokens read(const TokenSource& source, std::int64_t offset, std::int64_t count) {
  Tokens tokens(static_cast<std::size_t>(count));
  source.read_at(offset, tokens);
  return tokens;
}

Tokens all(const TokenSource& source) {
  return read(source, 0, source.tokens(0));
}

// Returns what make_shards writes for the files, with its defaults except the separator.
std::pair<Tokens, Tokens> from_shards(const Files& files) {
  const TempDir dir;
  ShardingOptions options;
  options.tokenizer_path = model;
  options.out_dir = dir.path();
  options.files = files;
  options.separator = Separator::blank_line;
  make_shards(options);
  const ShardSet train(dir.path(), "train", 512), val(dir.path(), "val", 512);
  return {all(train), all(val)};
}

void expect_as_in_shards(const Files& files) {
  const auto [train, val] = from_shards(files);
  ASSERT_GT(val.size(), 0U);
  for (const int threads : {1, 2, 5}) {
    const TextCorpus corpus(files, Tokenizer(model, 512), threads);
    EXPECT_TRUE(all(*corpus.train()) == train) << threads;
    EXPECT_TRUE(all(*corpus.val()) == val) << threads;
  }
}

TEST(TextCorpus, MakesTheTokensOfMakeShardsFromOneText) {
  const TempDir dir;
  write_file(dir / "a.txt", txt(900) + long_document() + txt(900, 900));
  expect_as_in_shards({dir / "a.txt"});
}

TEST(TextCorpus, MakesTheTokensOfMakeShardsFromSeveralTexts) {
  const TempDir dir;
  write_file(dir / "a.txt", txt(30) + "\n \n" + long_document());
  write_file(dir / "b.txt", "");
  write_file(dir / "c.txt", sentence(1));
  write_file(dir / "d.jsonl", jsonl(50));
  expect_as_in_shards({dir / "a.txt", dir / "b.txt", dir / "c.txt", dir / "d.jsonl"});
}

TEST(TextCorpus, MakesTheTokensOfMakeShardsFromJsonLines) {
  const TempDir dir;
  write_file(dir / "a.jsonl", jsonl(2000));
  expect_as_in_shards({dir / "a.jsonl"});
}

TEST(TextCorpus, MakesTheTokensOfMakeShardsFromPackedTexts) {
  const TempDir dir;
  write_file(dir / "a.txt.zst", test::zstd(txt(30)) + test::zstd(long_document()));
  write_file(dir / "b.jsonl.gz", test::gzip(jsonl(50)));
  write_file(dir / "c.json.xz", test::xz(jsonl(7)));
  expect_as_in_shards({dir / "a.txt.zst", dir / "b.jsonl.gz", dir / "c.json.xz"});
  const TempDir plain;
  write_file(plain / "a.txt", txt(30) + long_document());
  write_file(plain / "b.jsonl", jsonl(57));
  const auto [train, val] = from_shards({plain / "a.txt", plain / "b.jsonl"});
  const auto [packed_train, packed_val] = from_shards({dir / "a.txt.zst", dir / "b.jsonl.gz"});
  EXPECT_TRUE(std::equal(packed_train.begin(), packed_train.end(), train.begin()));
}

TEST(TextCorpus, IsOneShardThatBeginsAgainAtItsEnd) {
  const TempDir dir;
  write_file(dir / "a.txt", txt(100));
  const TextCorpus corpus({dir / "a.txt"}, Tokenizer(model, 512), 2);
  const auto train = corpus.train();
  EXPECT_EQ(train->pattern(), (dir / "a.txt") + " (train)");
  EXPECT_EQ(train->path(0), train->pattern());
  EXPECT_EQ(train->count(), 1);
  EXPECT_EQ(train->start(0), 0);
  const Tokens tokens = all(*train);
  const std::int64_t total = train->tokens(0);
  EXPECT_EQ(train->tokens_up_to(total - 1), total - 1);
  EXPECT_EQ(train->tokens_up_to(total + 1), total);
  EXPECT_EQ(train->tokens_up_to(0), 0);
  const Tokens three = read(*train, 5 * total - 7, 3 * total);
  for (std::size_t i = 0; i < three.size(); ++i) {
    ASSERT_EQ(three[i], tokens[(i + tokens.size() - 7) % tokens.size()]);
  }
}

TEST(TextCorpus, IsIdentifiedByItsTextWhereverItIsBeforeItsTokensAreMade) {
  const TempDir dir;
  const auto identity_of = [&](const std::string& name, const std::string& text) {
    write_file(dir / name, text);
    const auto identity = TextCorpus({dir / name}, Tokenizer(model, 512), 1).train()->identity();
    EXPECT_EQ(TextCorpus({dir / name}, Tokenizer(model, 512), 2).val()->identity(), identity);
    return identity;
  };
  const auto text = txt(5000);
  const auto identity = identity_of("a.txt", text);
  EXPECT_EQ(
      identity.find(fmt::format("1 text files (0 of JSON lines), {} bytes, digest ", text.size())),
      0U)
      << identity;
  EXPECT_EQ(identity_of("moved.txt", text), identity);
  auto changed = text;
  changed.front() = 'd';
  EXPECT_NE(identity_of("a.txt", changed), identity);
  EXPECT_NE(identity_of("a.txt", text + "\n"), identity);
  EXPECT_NE(identity_of("a.jsonl", jsonl(5)), identity_of("b.txt", jsonl(5)));
  const auto packed = identity_of("a.jsonl.gz", test::gzip(jsonl(5)));
  EXPECT_EQ(packed.find("1 text files (1 of JSON lines), "), 0U) << packed;
  const auto other_key =
      TextCorpus({dir / "a.jsonl.gz"}, Tokenizer(model, 512), 1, "id").train()->identity();
  EXPECT_EQ(other_key.find("1 text files (1 of JSON lines, key id), "), 0U) << other_key;
  EXPECT_EQ(TextCorpus({dir / "b.txt"}, Tokenizer(model, 512), 1, "id").train()->identity(),
            identity_of("b.txt", jsonl(5)));
}

TEST(TextCorpus, GivesManyReadersTheSameTokensWhileItGrows) {
  const TempDir dir;
  write_file(dir / "a.txt", txt(5000));
  Tokens expected, found;
  {
    const TextCorpus corpus({dir / "a.txt"}, Tokenizer(model, 512), 1);
    expected = all(*corpus.train());
  }
  ASSERT_GT(expected.size(), 100'000U) << "more than one chunk";
  found.resize(2 * expected.size());
  const auto train = TextCorpus({dir / "a.txt"}, Tokenizer(model, 512), 2).train();
  std::vector<std::thread> readers;
  for (std::size_t first = 0; first < 4; ++first) {
    readers.emplace_back([&, first] {
      for (std::size_t at = 1000 * first; at < found.size(); at += 4000) {
        const auto part =
            std::span(found).subspan(at, std::min(found.size() - at, std::size_t{1000}));
        train->read_at(static_cast<std::int64_t>(at), part);
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found.begin()));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found.begin() + std::ssize(expected)));
}

TEST(TextCorpus, GivesEarlyTokensBeforeTheTextHasEnded) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "pipe.txt").c_str(), 0600), 0);
  std::atomic<bool> may_end = false;
  std::thread writer([&] {
    std::ofstream pipe(dir / "pipe.txt");
    pipe << txt(11'000) << std::flush;  // about 900 KB: more than one thread reads ahead
    may_end.wait(false);
    pipe << txt(1);
  });
  const TextCorpus corpus({dir / "pipe.txt"}, Tokenizer(model, 512), 1);
  EXPECT_EQ(corpus.train()->tokens_up_to(5000), 5000);
  EXPECT_EQ(read(*corpus.train(), 1000, 10)[0], read(*corpus.train(), 1000, 1)[0]);
  EXPECT_EQ(corpus.val()->tokens_up_to(100), 100);
  EXPECT_FALSE(may_end);
  may_end = true;
  may_end.notify_all();
  writer.join();
}

// An endless text, written as long as it is read.
class EndlessText {
 public:
  explicit EndlessText(const std::string& path) {
    ::signal(SIGPIPE, SIG_IGN);
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    writer_ = std::jthread([path, text = txt(1000)] {
      std::ofstream pipe(path);
      while (pipe << text) {
      }
    });
  }

 private:
  std::jthread writer_;
};

TEST(TextCorpus, StopsWhenItsLastOwnerGoesThoughItsTextHasNoEnd) {
  const TempDir dir;
  const EndlessText unread(dir / "a.txt"), text(dir / "b.txt");
  TextCorpus(Files{dir / "a.txt"}, Tokenizer(model, 512), 2);
  auto train = TextCorpus({dir / "b.txt"}, Tokenizer(model, 512), 2).train();
  EXPECT_EQ(train->tokens_up_to(100), 100);
  std::promise<::pid_t> id;
  std::thread reader([&source = *train, &id] {
    id.set_value(::gettid());
    expect_start(error_of(ExitCode::stopped, [&] { source.tokens(0); }), "reading ");
  });
  test::wait_until_asleep(id.get_future().get());
  train.reset();
  reader.join();
}

// Corpora of the processes of a host, in the order in which they ask.
class Host {
 public:
  OncePerHost once() {
    return [this](const auto& make) {
      if (address_.empty()) address_ = make();
      return address_;
    };
  }

 private:
  std::string address_;
};

TEST(TextCorpus, IsReadOnceForAllOfAHost) {
  const TempDir dir;
  // A pipe can be read only once: a second reader would take part of the first one's text.
  ASSERT_EQ(::mkfifo((dir / "pipe.txt").c_str(), 0600), 0);
  write_file(dir / "a.txt", txt(5000));
  const TextCorpus alone({dir / "a.txt"}, Tokenizer(model, 512), 1);
  Host host;
  const TextCorpus first({dir / "pipe.txt"}, Tokenizer(model, 512), 2, "text", host.once());
  const TextCorpus second({dir / "pipe.txt"}, Tokenizer(model, 512), 2, "text", host.once());
  EXPECT_EQ(second.val()->known_tokens(), std::nullopt);
  std::thread writer([&] { std::ofstream(dir / "pipe.txt") << txt(5000); });
  EXPECT_TRUE(all(*second.train()) == all(*alone.train()));
  EXPECT_TRUE(all(*second.val()) == all(*first.val()));
  EXPECT_EQ(second.val()->known_tokens(), alone.val()->tokens(0));
  writer.join();
}

TEST(TextCorpus, IsReadByEachThatMayNotOpenTheOthersTokens) {
  const TempDir dir;
  write_file(dir / "a.txt", txt(500));
  const TextCorpus alone({dir / "a.txt"}, Tokenizer(model, 512), 1);
  for (const std::string address : {"", "/proc/1/fd/99999 7 /proc/1/fd/99998 8 "}) {
    const TextCorpus other({dir / "a.txt"}, Tokenizer(model, 512), 1, "text",
                           [&](const auto&) { return address; });
    EXPECT_TRUE(all(*other.train()) == all(*alone.train()));
  }
}

TEST(TextCorpus, EndsAllReadersOfAHostByTheErrorOrTheEndOfWhoMakesTheTokens) {
  const TempDir dir;
  write_file(dir / "a.txt", txt(11'000) + "\xff");
  Host host;
  const TextCorpus first({dir / "a.txt"}, Tokenizer(model, 512), 1, "text", host.once());
  const TextCorpus second({dir / "a.txt"}, Tokenizer(model, 512), 1, "text", host.once());
  const auto error = error_of(ExitCode::bad_data, [&] { first.val()->tokens(0); });
  expect_part(error, " is not UTF-8 at byte ");
  EXPECT_EQ(error_of(ExitCode::bad_data, [&] { second.val()->tokens(0); }), error);
  EXPECT_EQ(read(*second.train(), 0, 1000), read(*first.train(), 0, 1000));

  const EndlessText text(dir / "b.txt");
  Host other_host;
  auto maker = std::make_unique<TextCorpus>(Files{dir / "b.txt"}, Tokenizer(model, 512), 2, "text",
                                            other_host.once());
  const TextCorpus reader({dir / "b.txt"}, Tokenizer(model, 512), 2, "text", other_host.once());
  EXPECT_EQ(reader.train()->tokens_up_to(100), 100);
  std::promise<::pid_t> id;
  std::thread waiting([&] {
    id.set_value(::gettid());
    expect_part(error_of(ExitCode::unavailable, [&] { reader.train()->tokens(0); }),
                "the process of this host that tokenized " + (dir / "b.txt") + " (train) has gone");
  });
  test::wait_until_asleep(id.get_future().get());
  maker.reset();
  waiting.join();
}

TEST(TextCorpus, FailsWhoeverNeedsTokensThatItCouldNotMake) {
  const TempDir dir;
  write_file(dir / "a.txt", txt(11'000));
  write_file(dir / "b.txt", "good \xff");
  write_file(dir / "c.jsonl", "{\"text\": 1}");
  const std::pair<std::string, std::string> cases[] = {
      {"b.txt", " is not UTF-8 at byte 5"}, {"c.jsonl", " line 1 holds no document at byte 0"}};
  for (const auto& [name, what] : cases) {
    const TextCorpus corpus({dir / "a.txt", dir / name}, Tokenizer(model, 512), 1);
    const auto fails = [&](const TokenSource& source) {
      expect_start(error_of(ExitCode::bad_data, [&] { source.tokens(0); }), (dir / name) + what);
      error_of(ExitCode::bad_data, [&] { read(source, 1'000'000'000, 1); });
    };
    std::thread other([&] { fails(*corpus.train()); });
    fails(*corpus.val());
    other.join();
    EXPECT_EQ(read(*corpus.train(), 0, 1000)[0], 1) << "what was made before stays";
    EXPECT_EQ(corpus.train()->tokens_up_to(1000), 1000);
  }
  const TextCorpus missing({dir / "no.txt"}, Tokenizer(model, 512), 2);
  expect_start(error_of(ExitCode::missing_input, [&] { read(*missing.val(), 0, 1); }),
               "cannot open " + (dir / "no.txt"));
}

TEST(TextCorpus, RefusesATextWithoutDocumentsForOneOfTheSplits) {
  const TempDir dir;
  write_file(dir / "a.txt", txt(19));
  write_file(dir / "b.txt", "\n \n");
  const TextCorpus no_val({dir / "a.txt"}, Tokenizer(model, 512), 2),
      none({dir / "b.txt"}, Tokenizer(model, 512), 2);
  expect_start(error_of(ExitCode::bad_data, [&] { no_val.val()->tokens(0); }),
               (dir / "a.txt") + ": no validation documents (expected at least 1, found 19 ");
  expect_part(error_of(ExitCode::bad_data, [&] { none.val()->tokens_up_to(1); }),
              "no training documents (expected at least 1, found 0 ");
  write_file(dir / "a.txt", txt(20));
  EXPECT_GT(TextCorpus({dir / "a.txt"}, Tokenizer(model, 512), 2).val()->tokens(0), 0);
}

TEST(TextCorpus, NeedsNoDocumentsOfASplitThatNobodyWants) {
  const TempDir dir;
  write_file(dir / "a.txt", txt(1));
  const TextCorpus one({dir / "a.txt"}, Tokenizer(model, 512), 2, "text", once_alone,
                       {.val = false});
  EXPECT_GT(one.train()->tokens(0), 0);
  write_file(dir / "b.txt", "\n \n");
  const TextCorpus none({dir / "b.txt"}, Tokenizer(model, 512), 2, "text", once_alone,
                        {.val = false});
  expect_part(error_of(ExitCode::bad_data, [&] { none.train()->tokens(0); }),
              "no training documents (expected at least 1, found 0 ");
}

}  // namespace
}  // namespace tg
