# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "test_helper"
require "open3"
require "rbconfig"

# The files of the gem.
class PackageTest < TestCase
  ROOT = File.expand_path("..", __dir__)
  EAGER_LOAD = <<~RUBY
    require "rails"
    require "zeitwerk"
    loader = Zeitwerk::Loader.new
    loader.inflector = Zeitwerk::GemInflector.new("#{ROOT}/lib/kinesis_sidecar.rb")
    loader.push_dir("#{ROOT}/lib")
    loader.ignore("#{ROOT}/lib/kinesis-sidecar.rb", "#{ROOT}/lib/tasks")
    loader.setup
    loader.eager_load
  RUBY

  def test_files_are_named_after_their_constants
    output, status = Open3.capture2e(RbConfig.ruby, "-I", "#{ROOT}/lib", "-e", EAGER_LOAD)
    assert_predicate status, :success?, output
  end

  def test_gem_is_loaded_by_its_name
    script = 'require "kinesis-sidecar"; KinesisSidecar::Consumer.new("a")'
    output, status = Open3.capture2e(RbConfig.ruby, "-w", "-I", "#{ROOT}/lib", "-e", script)
    assert_predicate status, :success?
    assert_empty output
  end

  def test_source_files_have_a_license_line
    files = Dir["#{ROOT}/{lib,test,sig}/**/*.{rb,rake,rbs}"] + ["#{ROOT}/Rakefile", "#{ROOT}/kinesis_sidecar.gemspec"]
    assert_empty(files.reject { |path| File.foreach(path).first == "# SPDX-License-Identifier: Apache-2.0\n" })
  end

  def test_signatures_name_the_public_methods
    signatures = File.read("#{ROOT}/sig/kinesis_sidecar.rbs")
    [KinesisSidecar::Consumer, KinesisSidecar::Batch, KinesisSidecar::SidecarError].each do |type|
      type.public_instance_methods(false).each do |name|
        assert_match(/\b#{Regexp.escape(name.to_s)}:/, signatures, "#{type}##{name}")
      end
    end
  end
end
