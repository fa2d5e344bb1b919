# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# The calls of Aws::DynamoDB::Client and Aws::Kinesis::Client that kcl-rb makes, by HTTP and JSON, marshalled as the SDK for
# Ruby 3 does: strings S, numbers N, nil NULL; errors by their names, as Aws::Errors::ServiceError; retries as "legacy" does.
# It signs nothing (emulators look at no signature). AWS_SHIM_LOG names a file for all DynamoDB writes and their answers.
require 'net/http'
require 'json'
require 'base64'
require 'set'
require 'stringio'
require 'bigdecimal'

module Aws
  module Errors
    class ServiceError < RuntimeError
      attr_reader :code, :context
      def initialize(context, message, code)
        @context, @code = context, code
        super(message && !message.empty? ? message : self.class.to_s)
      end
    end
    module Dynamic
      def const_missing(name) = const_set(name, Class.new(Aws::Errors::ServiceError))
    end
  end

  module Shim
    class Client
      RETRY = /Throttl|ProvisionedThroughputExceeded|RequestLimit|InternalFailure|InternalServer|ServiceUnavailable/.freeze
      def initialize(options = {})
        # As the SDK: keys that are nil are as if they were not there; the region is needed.
        @region = options[:region] || ENV['AWS_REGION'] or raise ArgumentError, 'missing region'
        @uri = URI(options[:endpoint] || ENV[self.class::ENDPOINT])
        raise "not loopback: #{@uri}" unless @uri.host == '127.0.0.1'
        @idle = Queue.new
      end

      def request(op, params)
        body = JSON.generate(camel(params))
        tries = 0
        begin
          answer = post(op, body)
          json = answer.body && !answer.body.empty? ? JSON.parse(answer.body) : {}
          return json if answer.code == '200'
          code = (json['__type'] || json['code'] || answer.code).split('#').last
          raise self.class::ERRORS.const_get(code).new(nil, json['message'] || json['Message'], code)
        rescue Aws::Errors::ServiceError => e
          raise unless e.code =~ RETRY && (tries += 1) <= self.class::RETRIES
          sleep(0.05 * 2**tries); retry
        rescue SystemCallError, IOError, Timeout::Error, EOFError => e
          raise unless (tries += 1) <= 3
          sleep(0.3 * 2**tries); retry
        end
      end

      private

      DELAY = ENV.fetch('AWS_SHIM_DELAY_MS', '0').to_f / 1000 # Each answer of DynamoDB comes so much later.
      def post(op, body)
        sleep(DELAY / 2) if DELAY > 0 && self.class::TARGET.start_with?('Dynamo')
        http = begin @idle.pop(true) rescue ThreadError; nil end
        http ||= Net::HTTP.new(@uri.host, @uri.port).tap { |h| h.open_timeout = 15; h.read_timeout = 60; h.max_retries = 0; h.start }
        answer = http.post('/', body, 'X-Amz-Target' => "#{self.class::TARGET}.#{op}", 'Content-Type' => self.class::TYPE,
          'X-Amz-Date' => '20260101T000000Z', 'Authorization' => "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/#{@region}/x/aws4_request, SignedHeaders=host;x-amz-date, Signature=00")
        @idle.push(http); http = nil
        sleep(DELAY / 2) if DELAY > 0 && self.class::TARGET.start_with?('Dynamo')
        log(op, body, answer) if %w[PutItem UpdateItem DeleteItem].include?(op)
        answer
      ensure
        http&.finish rescue nil
      end

      LOCK = Mutex.new
      def log(op, body, answer)
        path = ENV['AWS_SHIM_LOG'] or return
        File.open(path, 'a') { |f| f.write("#{Time.now.to_f} #{op} #{answer.code} #{body}\n") }
      end

      def camel(x)
        x.each_with_object({}) { |(k, v), h| h[k.to_s.split('_').map(&:capitalize).join] = value(k, v) unless v.nil? }
      end
      def value(_key, v)
        case v
        when Hash then camel(v)
        when Array then v.map { |e| value(nil, e) }
        else v
        end
      end
    end

    # A struct as responses are: by method, by [:name].
    class Row
      def initialize(h) = @h = h
      def [](k) = @h[k.to_sym]
      def to_h = @h
      def method_missing(m, *) = @h.fetch(m) { nil }
      def respond_to_missing?(*) = true
      def self.snake(k) = k.gsub(/([a-z0-9])([A-Z])/, '\1_\2').downcase.to_sym
      def self.of(x)
        case x
        when Hash then new(x.to_h { |k, v| [snake(k), of(v)] })
        when Array then x.map { |e| of(e) }
        else x
        end
      end
    end
  end

  module DynamoDB
    module Errors; extend Aws::Errors::Dynamic; end
    class Client < Aws::Shim::Client
      TARGET = 'DynamoDB_20120810'; TYPE = 'application/x-amz-json-1.0'; ENDPOINT = 'AWS_ENDPOINT_URL_DYNAMODB'; RETRIES = 10
      ERRORS = Errors
      ATTRIBUTES = %i[key item expression_attribute_values].freeze
      def describe_table(p) = Aws::Shim::Row.of(request('DescribeTable', p))
      def create_table(p) = Aws::Shim::Row.of(request('CreateTable', p))
      def delete_table(p) = Aws::Shim::Row.of(request('DeleteTable', p))
      def get_item(p) = Aws::Shim::Row.new(item: plain(request('GetItem', p)['Item']))
      def put_item(p) = request('PutItem', p)
      def update_item(p) = request('UpdateItem', p)
      def delete_item(p) = request('DeleteItem', p)
      def scan(p) = Aws::Shim::Row.new(items: request('Scan', p)['Items'].map { |i| plain(i) })

      private

      def value(key, v)
        return super unless ATTRIBUTES.include?(key)
        v.to_h { |k, x| [k.to_s, self.class.marshal(x)] }
      end
      def plain(item) = item && item.to_h { |k, v| [k, self.class.unmarshal(v)] }
      def self.marshal(x)
        case x
        when nil then { 'NULL' => true }
        when String, Symbol then { 'S' => x.to_s }
        when Numeric then { 'N' => x.to_s }
        when true, false then { 'BOOL' => x }
        when StringIO, IO then { 'B' => Base64.strict_encode64(x.read) }
        when Set then x.first.is_a?(Numeric) ? { 'NS' => x.map(&:to_s) } : { 'SS' => x.map(&:to_s) }
        when Hash then { 'M' => x.to_h { |k, v| [k.to_s, marshal(v)] } }
        when Array then { 'L' => x.map { |e| marshal(e) } }
        else raise ArgumentError, "unsupported type, expected Hash, Array, Set, String, Numeric, IO, true, false, or nil, got #{x.class.name}"
        end
      end
      def self.unmarshal(v)
        type, x = v.first
        case type
        when 'S', 'BOOL' then x
        when 'N' then BigDecimal(x)
        when 'NULL' then nil
        when 'B' then StringIO.new(Base64.decode64(x))
        when 'M' then x.to_h { |k, y| [k, unmarshal(y)] }
        when 'L' then x.map { |y| unmarshal(y) }
        when 'SS' then Set.new(x)
        when 'NS' then Set.new(x.map { |n| BigDecimal(n) })
        end
      end
    end
  end

  module Kinesis
    module Errors; extend Aws::Errors::Dynamic; end
    class Client < Aws::Shim::Client
      TARGET = 'Kinesis_20131202'; TYPE = 'application/x-amz-json-1.1'; ENDPOINT = 'AWS_ENDPOINT_URL_KINESIS'; RETRIES = 3
      ERRORS = Errors
      def describe_stream(p) = Aws::Shim::Row.of(request('DescribeStream', p))
      def get_shard_iterator(p) = Aws::Shim::Row.of(request('GetShardIterator', p))
      def get_records(p)
        r = request('GetRecords', p)
        r['Records'].each { |x| x['Data'] = Base64.decode64(x['Data']); x['ApproximateArrivalTimestamp'] = Time.at(x['ApproximateArrivalTimestamp'].to_f) }
        Aws::Shim::Row.of(r)
      end
    end
  end
end
