# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# app.rb WAY CLIENT_ID CONCURRENCY - the app of the scenario: see ../judge.py. WAY is run, each, batches or race.

require "json"
require "kinesis_sidecar"

def report(**members)
  $stdout.syswrite("#{JSON.generate(members)}\n")
end

def note(record, what, at, **members)
  report(n: what["n"], attempt: record.attempt, at: at, **members)
end

# The record fails in a run.
def fails?(record, what)
  case what["do"]
  when "fail" then record.attempt <= what["times"]
  when "raise" then record.attempt == 1
  end
end

# What a handler does after its work, but for its failures.
def settle(record, what)
  case what["do"]
  when "dead_letter" then record.dead_letter("asked #{what["n"]}")
  when "drop" then record.drop
  end
  note(record, what, "end", outcome: record.outcome || "ack")
end

def handle(record)
  what = record.json
  note(record, what, "begin")
  sleep(what["ms"] / 1000.0)
  if fails?(record, what)
    note(record, what, "end", outcome: "retry")
    raise "fail #{what["n"]}"
  end
  settle(record, what)
end

# Handles a record of a loop.
# @return [Boolean] false: leave the loop
def take(record)
  what = record.json
  return leave(record, what) if %w[break raise].include?(what["do"]) && record.attempt == 1

  handle(record)
  true
rescue RuntimeError => e
  raise if what["do"] == "raise"

  record.retry(reason: e.message)
  true
end

def leave(record, what)
  note(record, what, "begin")
  note(record, what, what["do"])
  raise "raise #{what["n"]}" if what["do"] == "raise"

  false
end

def loop_over(records)
  loop { break unless take(records.next) }
end

def loop_over_batches(batches)
  loop { break unless batches.next.all? { |record| take(record) } }
end

def race(consumer)
  count = 0
  consumer.each do
    count += 1
    $stdout.syswrite("#{count}\n") if (count % 1000).zero?
  end
end

def read(consumer, way)
  case way
  when "each" then loop_over(consumer.each)
  when "batches" then loop_over_batches(consumer.each_batch(max_records: 100, max_wait: 0.2))
  when "race" then race(consumer)
  end
rescue RuntimeError
  nil # The record that raised is given back when the consumer is closed.
end

def main(way, client_id, concurrency)
  stopped = way == "run"
  options = way == "race" ? { max_in_flight: 10_000 } : { ack_deadline: 2 }
  KinesisSidecar::Consumer.open(client_id, **options) do |consumer|
    next consumer.run(concurrency: Integer(concurrency)) { |record| handle(record) } if way == "run"

    trap("TERM") do
      stopped = true
      consumer.stop
    end
    read(consumer, way)
  end
  report(at: "stopped") if stopped
rescue KinesisSidecar::SessionTakenOver
  report(at: "taken_over")
  exit 3
end

main(*ARGV)
