# SPDX-License-Identifier: Apache-2.0
variable "stream_arn" {
  description = "ARN of the Kinesis stream that is read."
  type        = string
}

variable "application" {
  description = "The option --application: name of the application and of its lease table."
  type        = string
}

variable "region" {
  description = "Region of the tables, that of the provider. Default: that of the stream."
  type        = string
  default     = ""
}

variable "dialect" {
  description = "The option --dialect: native, kcl, go-kcl, kinsumer or kcl-rb."
  type        = string
  default     = "native"
}

variable "create_tables" {
  description = "Whether the module creates the tables. false: they exist, those of a library for example."
  type        = bool
  default     = true
}

variable "retrieval" {
  description = "The option --retrieval: polling or fanout. With fanout the module registers a consumer."
  type        = string
  default     = "polling"
}

variable "stream_kms_key_arn" {
  description = "ARN of the KMS key of the stream; empty if it is not encrypted with one."
  type        = string
  default     = ""
}

variable "dead_letters" {
  description = "Kind of the option --dead-letters: table, s3, sqs, sns, kinesis, or none for a file."
  type        = string
  default     = "table"
}

variable "dead_letters_arn" {
  description = "ARN of the bucket, queue, topic or stream of dead letters."
  type        = string
  default     = ""
}

variable "dead_letters_prefix" {
  description = "PREFIX of --dead-letters s3://BUCKET/PREFIX."
  type        = string
  default     = ""
}

variable "dead_letters_kms_key_arn" {
  description = "ARN of the KMS key of the dead letters; empty if they are not encrypted with one."
  type        = string
  default     = ""
}

variable "role_name" {
  description = "Name of the IAM role that is created; empty: none, attach policy_arn to your own."
  type        = string
  default     = ""
}

variable "role_service" {
  description = "Service that gives the role to containers: pods.eks.amazonaws.com or ecs-tasks.amazonaws.com."
  type        = string
  default     = "pods.eks.amazonaws.com"
}

variable "cluster_name" {
  description = "EKS cluster whose service account gets the role by a Pod Identity association; empty: no association."
  type        = string
  default     = ""
}

variable "namespace" {
  description = "Namespace of the service account."
  type        = string
  default     = "default"
}

variable "service_account" {
  description = "Name of the service account."
  type        = string
  default     = ""
}
