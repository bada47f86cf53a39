"""What is minimised: smooth objectives with proved rounding errors."""

# SPDX-License-Identifier: Apache-2.0
