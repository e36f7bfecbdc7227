package arrival

import "time"

// golden holds the first times of schedules in nanoseconds, and hashes of the
// 100,000 that follow.
var golden = struct {
	poisson, bursty, even, ramp, steps, constant                         []time.Duration
	poissonHash, burstyHash, evenHash, rampHash, stepsHash, constantHash string
}{
	poisson:      []time.Duration{79762527, 311490665, 687793228, 867300230, 1079301717, 1275747216},
	poissonHash:  "3f2fd0c1bf77048af276c474bdace2984b12067b72b69bf7584c88f30b6d0710",
	bursty:       []time.Duration{12900853, 139011103, 269008711, 355322894, 420925953, 973381404},
	burstyHash:   "7a299be2176a55be47ab38defd3a35a15b946e47deee82777edd4f9194e34daa",
	even:         []time.Duration{86367462, 140880135, 267826056, 532000037, 727715292, 814237890},
	evenHash:     "f4507677fda8d22dbb45957017a56b95508a1673528893066ba1759370b8f117",
	ramp:         []time.Duration{312921607, 698663026, 1082072444, 1226515687, 1379061029, 1507551413},
	rampHash:     "8a1c482e681878a948b148041d3bb57f95fab4a3976f643f98e01cc7170fb094",
	steps:        []time.Duration{17386305, 385916065, 794102858, 961174950, 1035349469, 3604307121},
	stepsHash:    "f3da802d126977d0e8f2202af08d696dd112eb986f2ac28483c224ef2ba35aa2",
	constant:     []time.Duration{0, 1003009, 2006018, 3009027, 4012036, 5015045},
	constantHash: "1aac84a85c0515c12a365880c015ca6f1db3fef1d628e7ca1255b7b174d9d5b3",
}
