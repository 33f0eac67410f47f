// Package memory keeps what a person and their agent said, wrote, did and read, and finds it
// again on this machine, by words and by meaning.
package memory
