# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "test_helper"
require "open3"
require "rbconfig"

# The task of the Railtie, in a small application as a process of its own.
class RailsTest < TestCase
  RAKEFILE = File.expand_path("rails_app/Rakefile", __dir__)
  LIB = File.expand_path("../lib", __dir__)

  def setup
    @folder = Dir.mktmpdir
    @sidecar = RealSidecar.new(@folder).start
  end

  def teardown
    @sidecar&.kill
    FileUtils.remove_entry(@folder)
  end

  def rake(task)
    environment = { "KINESIS_SIDECAR_URL" => @sidecar.url, "RAILS_ENV" => "production" }
    command = [RbConfig.ruby, "-I", LIB, "-S", "rake", "-s", "-f", RAKEFILE, task]
    Open3.popen2e(environment, *command) { |_, out, app| yield out, app }
  end

  { "OrdersHandler" => "an instance", "Handlers::OrdersModule" => "the module" }.each do |name, said|
    define_method(:"test_task_calls_#{name}_until_sigterm") do
      @sidecar.put([*1..20])
      rake("kinesis_sidecar:consume[#{name},orders,4]") do |out, app|
        lines = Array.new(20) { out.gets }
        assert_equal((1..20).map { |number| "#{said}: #{number}\n" }.sort, lines.sort)
        wait_until("all are settled") { @sidecar.settled == 20 }
        Process.kill("TERM", app.pid)
        assert_predicate app.value, :success?
      end
    end
  end

  def test_task_refuses_a_class_that_is_not_a_handler
    rake("kinesis_sidecar:consume[String,orders]") do |out, app|
      assert_match "the handler must be a class with call(record), got String", out.read
      refute_predicate app.value, :success?
    end
  end

  def test_task_refuses_missing_arguments
    rake("kinesis_sidecar:consume") do |out, app|
      assert_match "the task needs a handler and a client_id", out.read
      refute_predicate app.value, :success?
    end
  end
end
