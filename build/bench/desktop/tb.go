package main

import stdtesting "testing"

// tb makes testing an implementation of the standard interface.
type tb = stdtesting.TB
