"""Audits of `distributed-dp-sgd`, whose members share the noise of a secure sum."""
