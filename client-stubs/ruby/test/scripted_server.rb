# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# A server that a test scripts. `stream` adds the answer of the next stream: lines (hashes) or bytes, or a refusal. A
# stream stays open after its last item; the item nil ends it. Settle requests are kept in `settles`; `settle_answers`
# are used first. NO_ANSWER closes the connection.
class ScriptedServer
  SESSION = { "type" => "session", "session" => "orders", "client_id" => "orders", "boot_id" => "1",
              "max_in_flight" => 1000, "max_in_flight_bytes" => 1 << 24, "ack_deadline_ms" => 60_000,
              "heartbeat_ms" => 10_000 }.freeze

  Request = Struct.new(:verb, :path, :headers, :body, :time)
  Answer = Struct.new(:status, :content, :headers)
  NO_ANSWER = Answer.new(nil)

  attr_reader :url, :opened, :settles, :deleted, :settle_answers
  # Whether the server sends the barrier of a request before its answer.
  attr_accessor :says_barriers

  def self.record(number, attempt: 1, batch: "b1", data: "{}", key: "k", shard: "shardId-000000000000", **members)
    { "type" => "record", "ack_id" => "a#{number}-#{attempt}", "batch_id" => batch, "stream" => "s",
      "shard_id" => shard, "epoch" => 1, "sequence_number" => number.to_s, "sub_sequence_number" => 0,
      "partition_key" => key,
      "approximate_arrival_timestamp" => "2026-01-01T00:00:00.000Z", "attempt" => attempt,
      **members.transform_keys(&:to_s), "data" => [data].pack("m0") }
  end

  def self.refusal(status, code: "", detail: "refused", retryable: false, headers: {})
    Answer.new(status, { "code" => code, "detail" => detail, "retryable" => retryable }, headers)
  end

  # The answer that refuses one item.
  def self.item_refusal(ack_id, reason)
    failure = { "ack_id" => ack_id, "reason" => reason, "message" => "too late" }
    Answer.new(200, { "ok" => 0, "failed" => [failure] }, {})
  end

  def initialize
    @streams = Thread::Queue.new
    @live = []
    @opened = []
    @says_barriers = true
    @settles = []
    @settle_answers = []
    @deleted = []
    @server = TCPServer.new("127.0.0.1", 0)
    @url = "http://127.0.0.1:#{@server.addr[1]}"
    @threads = [Thread.new { accept }]
  end

  def stream(*items)
    @streams << items
  end

  # Sends an item on the last stream; nil ends it.
  def say(item)
    @live.last << item
  end

  def items
    @settles.flat_map { |request| request.body["settlements"] }
  end

  # @return [Array<Array<String>>] id and outcome of each settlement, without extensions
  def outcomes
    settled = items.reject { |item| item["outcome"] == "extend" }
    settled.map { |item| [item["ack_id"] || item["batch_id"], item["outcome"]] }
  end

  def extensions
    items.select { |item| item["outcome"] == "extend" }
  end

  def close
    @threads.each(&:kill)
    @threads.each(&:join)
    @server.close
  end

  private

  def accept
    loop do
      socket = @server.accept
      @threads << Thread.new { serve(socket) }
    end
  end

  def serve(socket)
    while (request = read(socket))
      case request.verb
      when "GET" then return serve_stream(socket, request)
      when "POST" then settle(socket, request)
      when "DELETE" then delete(socket, request)
      end
    end
  rescue SystemCallError, IOError
    nil # The client has closed the connection.
  ensure
    socket.close
  end

  def read(socket)
    head = socket.gets("\r\n\r\n") or return
    first, *lines = head.split("\r\n")
    verb, path = first.split
    headers = lines.to_h { |line| line.split(": ", 2) }
    length = headers.fetch("Content-Length", "0").to_i
    Request.new(verb, path, headers, length.zero? ? nil : JSON.parse(socket.read(length)), Waiting.now)
  end

  def serve_stream(socket, request)
    @opened << request
    items = @streams.pop
    return answer(socket, items.first) if items.first.is_a?(Answer)

    socket.write("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
    said = Thread::Queue.new
    items.each { |item| said << item }
    @live << said
    while (item = said.pop)
      content = item.is_a?(String) ? item : "#{JSON.generate(item)}\n"
      socket.write("#{content.bytesize.to_s(16)}\r\n#{content}\r\n")
    end
  end

  # A test that has seen the request may rely on its barrier: further items of the stream come after it.
  def settle(socket, request)
    scripted = @settle_answers.shift
    barrier = request.body["barrier"]
    accepted = scripted.nil? || scripted.status == 200
    say({ "type" => "barrier", "barrier" => barrier }) if says_barriers && barrier && accepted
    @settles << request
    raise IOError, "no answer" if scripted.equal?(NO_ANSWER)

    content = { "ok" => request.body["settlements"].size, "failed" => [], "persisted" => true, "positions" => [] }
    answer(socket, scripted || Answer.new(200, content, {}))
  end

  def delete(socket, request)
    @deleted << request.path
    answer(socket, Answer.new(200, {}, {}))
  end

  def answer(socket, answer)
    content = JSON.generate(answer.content)
    fields = { "Content-Length" => content.bytesize, **answer.headers }
    head = ["HTTP/1.1 #{answer.status} Any", *fields.map { |pair| pair.join(": ") }]
    socket.write("#{head.join("\r\n")}\r\n\r\n#{content}")
  end
end
