# SPDX-License-Identifier: Apache-2.0
# The least policy for these variables. Its rows are the sidecar's own (permissions.json and tables.json, by `make docs`), and
# a test compares the result with what `kinesis-sidecar iam-policy --existing` prints.
locals {
  permissions = jsondecode(file("${path.module}/permissions.json"))
  dialects    = jsondecode(file("${path.module}/tables.json"))

  stream    = split(":", var.stream_arn)
  partition = local.stream[1]
  region    = var.region != "" ? var.region : local.stream[3]
  tables_at = "arn:${local.partition}:dynamodb:${local.region}:${local.stream[4]}:table/${var.application}"
  letters   = var.dead_letters
  encrypted = var.dead_letters_kms_key_arn != ""

  # ARNs of the tables of the dialect in their order, and the tables that the module creates.
  names = [for table in local.dialects[var.dialect] : "${local.tables_at}${table.create.TableName}" if !table.letters]
  created = [
    for table in local.dialects[var.dialect] : table.create
    if !table.optional && (!table.letters || local.letters == "table")
  ]

  when = {
    STREAM             = true
    FANOUT             = var.retrieval == "fanout"
    CONSUMER_BY_NAME   = var.retrieval == "fanout"
    STREAM_KEY         = var.stream_kms_key_arn != ""
    TABLES             = true
    NATIVE             = var.dialect == "native"
    KCL                = var.dialect == "kcl"
    GO_KCL_OR_KCL_RB   = contains(["go-kcl", "kcl-rb"], var.dialect)
    KINSUMER           = var.dialect == "kinsumer"
    LETTERS_TABLE      = local.letters == "table"
    LETTERS_S3         = local.letters == "s3"
    LETTERS_SQS        = local.letters == "sqs"
    LETTERS_SNS        = local.letters == "sns"
    LETTERS_KINESIS    = local.letters == "kinesis"
    LETTERS_KEY        = local.encrypted && contains(["s3", "sqs", "sns"], local.letters)
    LETTERS_STREAM_KEY = local.encrypted && local.letters == "kinesis"
    ROLES              = false
  }

  arns = {
    STREAM      = [var.stream_arn]
    CONSUMER    = ["${var.stream_arn}/consumer/*"]
    STREAM_KEY  = [var.stream_kms_key_arn]
    LEASES      = [local.names[0]]
    INDEX       = ["${local.tables_at}/index/LeaseOwnerToLeaseKeyIndex"]
    SECOND      = [for at, name in local.names : name if at == 1]
    THIRD       = [for at, name in local.names : name if at == 2]
    TABLES      = [for table in local.created : "${local.tables_at}${table.TableName}"]
    LETTERS     = ["${local.tables_at}${var.dialect == "native" ? "" : "-letters"}"]
    OBJECTS     = ["${var.dead_letters_arn}/${var.dead_letters_prefix == "" ? "" : "${var.dead_letters_prefix}/"}*"]
    BUCKET      = [var.dead_letters_arn]
    SINK        = [var.dead_letters_arn]
    LETTERS_KEY = [var.dead_letters_kms_key_arn]
    ROLES       = []
  }

  # What the module makes, or what exists, the sidecar needs no right to make.
  policy = {
    Version = "2012-10-17"
    Statement = [
      for row in local.permissions : {
        Sid      = row.sid
        Effect   = "Allow"
        Action   = row.actions
        Resource = local.arns[row.resource]
      } if !row.makes && local.when[row.when]
    ]
  }
}
