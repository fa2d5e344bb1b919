# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # The retries that hold scopes. A *scope* is the unit of order: a shard, or a lane of it. A retry takes the later
    # records of its scope back. While it holds the scope, the app gets no record of it.
    #
    # The threads of the app call `add`, `held?` and `none?`. The lock guards them against the thread that reads.
    class Holds
      def initialize
        @by_scope = {}
        @lock = Mutex.new
        @barriers_sent = 0
      end

      def none?
        @by_scope.empty?
      end

      def held?(scope)
        @by_scope.key?(scope)
      end

      def add(scope, record)
        @lock.synchronize do
          holds = (@by_scope[scope] ||= [])
          holds << Hold.new(record) if holds.none? { |hold| hold.record.equal?(record) }
        end
      end

      # Adds the hold of a retry to the request that sends it.
      def send_with(request, scope, record)
        hold = @lock.synchronize { @by_scope.fetch(scope, []).find { |one| one.record.equal?(record) } }
        return unless hold

        request.barrier ||= (@barriers_sent += 1)
        hold.barrier = request.barrier
        request.holds << hold
      end

      # The record has no session any more.
      def release(record)
        @lock.synchronize do
          @by_scope.each_value { |holds| holds.reject! { |hold| hold.record.equal?(record) } }
        end
      end

      # @param place [Integer] of the next delivery
      def barrier_passed(number, place)
        @lock.synchronize { @by_scope.each_value { |holds| holds.each { |hold| hold.barrier_passed(number, place) } } }
      end

      # @param place [Integer] of the redelivery
      # @return [Boolean] whether a retry of the record holds a scope
      def redelivered(record, place)
        @lock.synchronize do
          holds = @by_scope.fetch(record.scope, []).select { |hold| hold.record.identity == record.identity }
          holds.each { |hold| hold.redelivered(place) }.any?
        end
      end

      # Begins a session.
      # @return [Array<String>] the scopes that were held
      def reset
        @barriers_sent = 0
        @lock.synchronize do
          scopes = @by_scope.keys
          @by_scope.clear
          scopes
        end
      end

      # Ends the scopes whose retries are all resolved.
      # @yieldparam scope [String]
      # @yieldparam holds [Array<Hold>] the retries that were accepted
      # @return [Array<String>] these scopes
      def resolve
        return [] if none?

        @lock.synchronize do
          resolved = @by_scope.select { |_, holds| holds.all?(&:resolved?) }
          resolved.each do |scope, holds|
            yield scope, holds.select(&:accepted)
            @by_scope.delete(scope)
          end
          resolved.keys
        end
      end
    end
  end
end
