//go:build !race

package importer

const raced = false
