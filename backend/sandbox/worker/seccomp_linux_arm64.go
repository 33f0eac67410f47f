package worker

var allowedHere []uint32
