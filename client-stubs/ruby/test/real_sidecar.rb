# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# The binary KINESIS_SIDECAR_BIN on a local stream.
class RealSidecar
  attr_reader :url, :options, :folder

  def initialize(folder, **options)
    @folder = folder
    @port = free_port
    @ops = free_port
    @url = "http://127.0.0.1:#{@port}"
    @options = { "source" => "local:#{folder}/stream.db", "stream" => "demo", "application" => "demo",
                 "worker-id" => "w", "dead-letters" => "sqlite:#{folder}/letters.db",
                 "initial-position" => "trim_horizon", "lease-duration-ms" => 2000, "retry-backoff-ms" => 50,
                 "listen" => "127.0.0.1:#{@port}", "ops-listen" => "127.0.0.1:#{@ops}",
                 **options.transform_keys { |name| name.to_s.tr("_", "-") } }
  end

  def start
    words = @options.flat_map { |name, value| ["--#{name}", value.to_s] }
    @pid = spawn(ENV.fetch("KINESIS_SIDECAR_BIN"), *words, %i[out err] => ["#{@folder}/sidecar.log", "a"])
    Waiting.until("the sidecar is ready") { ready? }
    self
  end

  def kill
    Process.kill("KILL", @pid)
    Process.wait(@pid)
  end

  def get(path)
    JSON.parse(Net::HTTP.get(URI(@url + path)))
  end

  def post(path, body)
    answer = Net::HTTP.post(URI(@url + path), JSON.generate(body), "Content-Type" => "application/json")
    JSON.parse(answer.body)
  end

  # @param values [Array] become JSON; the block gives the partition key of each
  def put(values, &key)
    key ||= ->(value) { "key-#{value % 10}" }
    entries = values.map { |value| { "PartitionKey" => key.call(value), "Data" => [JSON.generate(value)].pack("m0") } }
    entries.each_slice(500) do |records|
      answer = post("/v1/local/records", "Records" => records)
      raise answer.to_s unless answer["FailedRecordCount"]&.zero?
    end
  end

  def shards
    get("/v1/shards")["shards"]
  end

  def settled
    shards.sum { |shard| shard["settled"] }
  end

  def in_flight
    shards.sum { |shard| shard["in_flight"] }
  end

  private

  def ready?
    raise "the sidecar has ended: #{File.read("#{@folder}/sidecar.log")}" if Process.wait(@pid, Process::WNOHANG)

    Net::HTTP.get_response(URI("http://127.0.0.1:#{@ops}/readyz")).is_a?(Net::HTTPSuccess)
  rescue SystemCallError
    false
  end

  def free_port
    server = TCPServer.new("127.0.0.1", 0)
    server.addr[1]
  ensure
    server.close
  end
end
