# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "test_helper"

# The effect of a retry on the other records of its scope.
class HoldTest < TestCase
  Retried = Struct.new(:position, :group)
  Group = Struct.new(:current)

  def setup
    @group = Group.new(true)
    @hold = KinesisSidecar::Internal::Hold.new(Retried.new([5, 0], @group))
    @hold.barrier = 3
  end

  def takes_back?(number, place)
    @hold.takes_back?(Retried.new([number, 0]), place)
  end

  def test_accepted_retry_waits_for_its_barrier
    @hold.answered(true)
    @hold.barrier_passed(2, 1)
    refute_predicate @hold, :resolved?
    @hold.barrier_passed(3, 42)
    assert_predicate @hold, :resolved?
  end

  def test_refused_retry_waits_for_its_barrier_and_takes_nothing_back
    @hold.answered(false)
    refute_predicate @hold, :resolved?
    @hold.barrier_passed(3, 42)
    assert_predicate @hold, :resolved?
    refute takes_back?(6, 1)
  end

  def test_later_records_before_the_first_barrier_are_taken_back
    @hold.answered(true)
    @hold.barrier_passed(3, 42)
    @hold.barrier_passed(3, 90)
    assert takes_back?(6, 41)
    refute takes_back?(4, 41)
    refute takes_back?(6, 42)
  end

  def test_redelivery_stands_for_the_answer_and_the_barrier
    @hold.redelivered(21)
    @hold.answered(false)
    @hold.barrier_passed(3, 42)
    assert_predicate @hold, :resolved?
    assert takes_back?(6, 20)
    refute takes_back?(6, 22)
  end

  def test_retry_of_a_lost_lease_takes_nothing_back
    @hold.answered(true)
    @hold.barrier_passed(3, 42)
    @group.current = false
    refute takes_back?(6, 41)
  end
end
