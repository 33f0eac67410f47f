// Package memory stores what a person and their agent said, wrote, did and read, and searches it on
// this device, by keywords and by meaning.
package memory
