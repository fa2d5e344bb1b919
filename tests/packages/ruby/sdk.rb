# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# sdk.rb COUNT - a plain HTTP loop over GetRecords, from TRIM_HORIZON. It is not the AWS SDK: Debian does not have that.

require "json"
require "net/http"
require "openssl"

# Calls Kinesis over one connection, signed by Signature Version 4.
class Kinesis
  def initialize(url, region, access_key, secret_key)
    @uri = URI(url)
    @region, @access_key, @secret_key = region, access_key, secret_key
    @http = Net::HTTP.start(@uri.host, @uri.port)
  end

  def call(operation, members)
    body = JSON.generate(members)
    headers = { "content-type" => "application/x-amz-json-1.1", "host" => "#{@uri.host}:#{@uri.port}",
                "x-amz-date" => Time.now.utc.strftime("%Y%m%dT%H%M%SZ"),
                "x-amz-target" => "Kinesis_20131202.#{operation}" }
    headers["authorization"] = authorization(headers, body)
    response = @http.post("/", body, headers)
    raise "#{operation}: #{response.code} #{response.body}" unless response.code == "200"

    JSON.parse(response.body)
  end

  private

  def authorization(headers, body)
    names = headers.keys.join(";")
    lines = headers.map { |name, value| "#{name}:#{value}\n" }.join
    request = "POST\n/\n\n#{lines}\n#{names}\n#{OpenSSL::Digest::SHA256.hexdigest(body)}"
    date = headers["x-amz-date"]
    parts = [date[0, 8], @region, "kinesis", "aws4_request"]
    key = parts.inject("AWS4#{@secret_key}") { |so_far, part| OpenSSL::HMAC.digest("SHA256", so_far, part) }
    scope = parts.join("/")
    text = "AWS4-HMAC-SHA256\n#{date}\n#{scope}\n#{OpenSSL::Digest::SHA256.hexdigest(request)}"
    "AWS4-HMAC-SHA256 Credential=#{@access_key}/#{scope}, SignedHeaders=#{names}, " \
      "Signature=#{OpenSSL::HMAC.hexdigest("SHA256", key, text)}"
  end
end

$stdout.sync = true
wanted = Integer(ARGV.fetch(0))
kinesis = Kinesis.new(ENV.fetch("AWS_ENDPOINT_URL_KINESIS"), ENV.fetch("AWS_REGION"), ENV.fetch("AWS_ACCESS_KEY_ID"),
                      ENV.fetch("AWS_SECRET_ACCESS_KEY"))
iterators = kinesis.call("ListShards", StreamName: "demo")["Shards"].map do |shard|
  kinesis.call("GetShardIterator", StreamName: "demo", ShardId: shard["ShardId"],
                                   ShardIteratorType: "TRIM_HORIZON")["ShardIterator"]
end
read = 0
bytes = 0
while read < wanted
  before = read
  iterators.map! do |iterator|
    answer = kinesis.call("GetRecords", ShardIterator: iterator, Limit: 10_000)
    answer["Records"].each do |record|
      bytes += record["Data"].unpack1("m0").bytesize
      read += 1
      puts read if (read % 1000).zero?
    end
    answer["NextShardIterator"]
  end
  sleep 0.2 if read == before # A shard allows 5 reads a second.
end
