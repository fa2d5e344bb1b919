# SPDX-License-Identifier: Apache-2.0
# What a kinesis-sidecar needs in AWS: tables, a consumer for enhanced fan-out, the least policy, a role, and a Pod Identity
# association. docs/INFRASTRUCTURE.md has an example.

# The tables hold the checkpoints: they are not destroyed by an accident.
resource "aws_dynamodb_table" "this" {
  for_each = var.create_tables ? { for table in local.created : "${var.application}${table.TableName}" => table } : {}

  name         = each.key
  billing_mode = each.value.BillingMode
  hash_key     = each.value.KeySchema[0].AttributeName
  range_key    = length(each.value.KeySchema) > 1 ? each.value.KeySchema[1].AttributeName : null

  dynamic "attribute" {
    for_each = each.value.AttributeDefinitions
    content {
      name = attribute.value.AttributeName
      type = attribute.value.AttributeType
    }
  }

  # Only the native table and that of dead letters have a range key, and dead letters that expire.
  dynamic "ttl" {
    for_each = length(each.value.KeySchema) > 1 ? ["expires"] : []
    content {
      attribute_name = ttl.value
      enabled        = true
    }
  }

  point_in_time_recovery {
    enabled = true
  }

  deletion_protection_enabled = true
}

resource "aws_kinesis_stream_consumer" "this" {
  count = var.retrieval == "fanout" ? 1 : 0

  name       = var.application
  stream_arn = var.stream_arn
}

resource "aws_iam_policy" "this" {
  name_prefix = "${var.application}-sidecar-"
  description = "What kinesis-sidecar needs for the application ${var.application}."
  policy      = jsonencode(local.policy)
}

resource "aws_iam_role" "this" {
  count = var.role_name != "" ? 1 : 0

  name = var.role_name
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = var.role_service }
      Action    = var.role_service == "pods.eks.amazonaws.com" ? ["sts:AssumeRole", "sts:TagSession"] : ["sts:AssumeRole"]
    }]
  })
}

resource "aws_iam_role_policy_attachment" "this" {
  count = var.role_name != "" ? 1 : 0

  role       = aws_iam_role.this[0].name
  policy_arn = aws_iam_policy.this.arn
}

resource "aws_eks_pod_identity_association" "this" {
  count = var.role_name != "" && var.cluster_name != "" ? 1 : 0

  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.this[0].arn
}
