# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "test_helper"
require "open3"
require "rbconfig"

# The consumer and the real sidecar.
class SidecarTest < TestCase
  LIB = File.expand_path("../lib", __dir__)

  def setup
    @folder = Dir.mktmpdir
  end

  def teardown
    @sidecar&.kill
    FileUtils.remove_entry(@folder)
  end

  def sidecar(**options)
    @sidecar ||= RealSidecar.new(@folder, **options).start
  end

  def consumer(**options)
    KinesisSidecar::Consumer.new("orders", url: sidecar.url, **options)
  end

  # Notes what handlers do, by partition key.
  class Handled
    attr_reader :by_key, :most

    def initialize
      @lock = Mutex.new
      @by_key = Hash.new { |lists, key| lists[key] = [] }
      @running = Hash.new(0)
      @most = 0
    end

    # Notes the record as handled if the block does not raise.
    def handling(record)
      begin_one(record.partition_key)
      yield
      @lock.synchronize { @by_key[record.partition_key] << record.json }
    ensure
      @lock.synchronize { @running[record.partition_key] -= 1 }
    end

    def running?(key)
      @lock.synchronize { @running[key].positive? }
    end

    def numbers
      @lock.synchronize { @by_key.values.flatten }
    end

    private

    def begin_one(key)
      @lock.synchronize do
        raise Exception, "two handlers of one key" if (@running[key] += 1) > 1

        @most = [@most, @running.values.sum].max
      end
    end
  end

  def test_every_outcome_reaches_the_sidecar
    sidecar.put(%w[ack drop dead_letter retry], &:itself)
    seen = Hash.new(0)
    handler = lambda do |record|
      value = record.json
      seen[value] += 1
      case value
      when "drop" then record.drop
      when "dead_letter" then record.dead_letter("no way")
      when "retry" then record.retry(delay: 0.01, reason: "not yet") if seen[value] < 3
      end
    end
    consuming(consumer, handler) { wait_until("all are settled") { sidecar.settled == 4 } }
    assert_equal(["no way"], sidecar.get("/v1/dead-letters")["dead_letters"].map { |letter| letter["reason"] })
    assert_equal({ "ack" => 1, "drop" => 1, "dead_letter" => 1, "retry" => 3 }, seen)
  end

  [1, 8].each do |concurrency|
    define_method(:"test_order_of_a_key_is_kept_while_#{concurrency}_handlers_fail") do
      sidecar.put([*0...1000])
      handled = Handled.new
      failed = {}
      handler = lambda do |record|
        handled.handling(record) do
          number = record.json
          Thread.pass
          raise "fails once" if (number % 37).zero? && !failed[number] && (failed[number] = true)
        end
      end
      consuming(consumer, handler, concurrency: concurrency) do
        wait_until("all are settled") { sidecar.settled == 1000 }
      end
      assert_equal 28, failed.size
      handled.by_key.each { |key, numbers| assert_equal numbers.uniq.sort, numbers, key }
      assert_equal [*0...1000], handled.numbers.sort
      assert_operator handled.most, :<=, concurrency
    end
  end

  def test_slow_handler_beyond_the_deadline_is_called_once
    sidecar.put([1])
    attempts = []
    handler = lambda do |record|
      attempts << record.attempt
      sleep 3
    end
    consuming(consumer(ack_deadline: 1), handler) { wait_until("the record is settled") { sidecar.settled == 1 } }
    assert_equal [1], attempts
  end

  def test_break_gives_its_record_back
    sidecar.put([1, 2, 3]) { "one" }
    consumer.each { |record| break if record.json == 2 }
    KinesisSidecar::Consumer.open("orders", url: sidecar.url) do |second|
      assert_equal [2, 3], take(second, 2).map(&:json)
    end
  end

  def test_enumerator_that_is_left_gives_its_record_back
    sidecar.put([1, 2]) { "one" }
    assert_raises(RuntimeError) do
      KinesisSidecar::Consumer.open("orders", url: sidecar.url) do |first|
        assert_equal [1, 2], take(first, 2).map(&:json)
        raise "odd"
      end
    end
    KinesisSidecar::Consumer.open("orders", url: sidecar.url) { |second| assert_equal [2], take(second, 1).map(&:json) }
  end

  def test_batches_have_a_size_and_a_wait
    sidecar.put([*0...25])
    sizes = []
    reader = consumer
    reader.each_batch(max_records: 10, max_wait: 0.2) do |batch|
      sizes << batch.size
      reader.stop if sizes.sum == 25
    end
    assert_operator sizes.max, :<=, 10
    assert_equal 25, sidecar.settled
  end

  def test_batch_is_retried_but_for_records_with_an_outcome
    sidecar.put([1, 2, 3]) { "one" }
    KinesisSidecar::Consumer.open("orders", url: sidecar.url) do |reader|
      batches = reader.each_batch(max_records: 3, max_wait: 5)
      batch = batches.next
      batch.first.ack
      batch.retry(reason: "again")
      assert_equal [2, 3], batches.next.map(&:json)
    end
  end

  def test_rest_of_a_retried_batch_is_handed_out_once
    sidecar.put([1, 2, 3]) { "one" }
    KinesisSidecar::Consumer.open("orders", url: sidecar.url) do |reader|
      batches = reader.each_batch(max_records: 3, max_wait: 60)
      first, *rest = batches.next.records
      ids = rest.map(&:settle_id)
      first.retry(delay: 0.01)
      wait_until("the rest is redelivered") { (ids & rest.map(&:settle_id)).empty? }
      sidecar.put([4, 5]) { "one" }
      assert_equal [1, 4, 5], batches.next.map(&:json)
    end
  end

  def test_persisted_ack_waits_for_the_checkpoint
    sidecar.put([1])
    KinesisSidecar::Consumer.open("orders", url: sidecar.url) do |reader|
      record, = take(reader, 1)
      assert_equal true, record.ack(persisted: true)
      shard = sidecar.shards.find { |one| one["shard_id"] == record.shard_id }
      assert_equal record.sequence_number, shard["checkpoint"]
    end
  end

  def test_record_has_its_members
    sidecar.put([{ "a" => "ä" }]) { "the key ä" }
    KinesisSidecar::Consumer.open("orders", url: sidecar.url) do |reader|
      record, = take(reader, 1)
      assert_equal({ "a" => "ä" }, record.json)
      assert_equal({ a: "ä" }, record.json(symbolize_names: true))
      assert_equal ["the key ä", "demo"], [record.partition_key, record.stream]
      assert_equal [1, 0], [record.attempt, record.sub_sequence_number]
      assert_match(/\AshardId-/, record.shard_id)
      assert_in_delta Time.now, record.arrived_at, 3600
      refute record.aggregated? || record.redriven?
      assert_operator record.epoch, :>=, 1
    end
  end

  def test_redriven_record_says_so
    sidecar.put([1])
    redriven = []
    handler = ->(record) { record.redriven? ? redriven << record.epoch : record.dead_letter }
    consuming(consumer, handler) do
      letter = wait_until("the dead letter is kept") { sidecar.get("/v1/dead-letters")["dead_letters"].first }
      sidecar.post("/v1/dead-letters/#{letter["id"]}/redrive", {})
      wait_until("the dead letter is gone") { sidecar.get("/v1/dead-letters")["dead_letters"].empty? }
    end
    assert_equal [0], redriven
  end

  def test_lines_of_the_sidecar_are_kept_as_they_are
    sidecar.put([1, 2])
    [{ ordering: :shard }, { ordering: :key, lanes: 4 }].each do |options|
      KinesisSidecar::Consumer.open("orders", url: sidecar.url, **options) do |reader|
        record, = take(reader, 1)
        line = record.line
        assert line.start_with?(KinesisSidecar::Internal::Line::START), line
        assert_includes line, KinesisSidecar::Internal::Line.sequence_numbers(line)
        assert line.end_with?(%("data":"#{[record.data].pack("m0")}"})), line
      end
    end
  end

  def test_kill_of_the_sidecar_repeats_no_record_that_is_handled
    sidecar.put([*0...200])
    handled = Handled.new
    release = Thread::Queue.new
    calls = Hash.new(0)
    handler = lambda do |record|
      handled.handling(record) do
        calls[record.json] += 1
        release.pop if record.json == 50
      end
    end
    sessions = Thread::Queue.new
    reader = consumer(on_event: ->(event) { sessions << event if event["type"] == "session" })
    consuming(reader, handler, concurrency: 4) do
      wait_until("one handler is held up") { handled.running?("key-0") && handled.numbers.size > 100 }
      sidecar.kill
      sidecar.start
      wait_until("the consumer has a new session") { sessions.size == 2 }
      release.close
      wait_until("all are handled") { handled.numbers.uniq.size == 200 }
      wait_until("all are settled") { sidecar.in_flight.zero? }
    end
    assert_equal 1, calls[50]
  end

  APP = <<~RUBY
    $stdout.sync = true
    KinesisSidecar::Consumer.new("orders").run(concurrency: 2) do
      puts "begin"
      sleep 1
      puts "end"
    end
    puts "closed"
  RUBY

  def test_sigterm_waits_for_the_running_handlers
    sidecar.put([*0...10])
    environment = { "KINESIS_SIDECAR_URL" => sidecar.url }
    Open3.popen2(environment, RbConfig.ruby, "-I", LIB, "-r", "kinesis_sidecar", "-e", APP) do |_, out, app|
      assert_equal "begin\n", out.gets
      Process.kill("TERM", app.pid)
      rest = out.read.split
      assert_predicate app.value, :success?
      assert_equal rest.count("begin") + 1, rest.count("end")
      assert_equal "closed", rest.last
      assert_equal rest.count("end"), sidecar.settled
    end
  end

  def test_run_restores_the_signals
    before = trap("TERM", "DEFAULT")
    reader = consumer
    sidecar.put([1])
    reader.run { reader.stop }
    assert_equal "DEFAULT", trap("TERM", before || "DEFAULT")
  end

  def test_second_consumer_with_the_same_client_id_takes_over
    sidecar.put([1])
    first = consumer
    records = first.each
    records.next
    second = consumer
    consuming(second, ->(_) {}) do
      assert_raises(KinesisSidecar::SessionTakenOver) { loop { records.next } }
    end
    first.close
  end

  def test_unix_socket_and_token
    token = "#{@folder}/token"
    File.write(token, "secret\n", perm: 0o600)
    @sidecar = RealSidecar.new(@folder, token_file: token)
    @sidecar.options["listen"] += ",unix:#{@folder}/api.sock"
    @sidecar.start
    sessions = Thread::Queue.new
    reader = KinesisSidecar::Consumer.new("orders", url: "unix:#{@folder}/api.sock", token_file: token,
                                                    max_in_flight: 5, on_event: ->(event) { sessions << event })
    consuming(reader, ->(_) {}) { assert_equal ["session", 5], sessions.pop.values_at("type", "max_in_flight") }
    wrong = KinesisSidecar::Consumer.new("orders", url: "unix:#{@folder}/api.sock")
    assert_equal 401, assert_raises(KinesisSidecar::SidecarError) { take(wrong, 1) }.status
  end
end
