# SPDX-License-Identifier: Apache-2.0
output "policy_arn" {
  description = "ARN of the policy."
  value       = aws_iam_policy.this.arn
}

output "role_arn" {
  description = "ARN of the role; null without role_name."
  value       = one(aws_iam_role.this[*].arn)
}

output "consumer_arn" {
  description = "The option --consumer with retrieval = fanout; null without."
  value       = one(aws_kinesis_stream_consumer.this[*].arn)
}

output "table_names" {
  description = "Names of the tables that the module created."
  value       = [for table in aws_dynamodb_table.this : table.name]
}
