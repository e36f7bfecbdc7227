// Package draw makes every random choice of a load: seeded, and the same on
// every platform. Bits come from PCG-DXSM (O'Neill, "PCG: A Family of Simple
// Fast Space-Efficient Statistically Good Algorithms", 2014; math/rand/v2
// fixes its outputs). The transcendental functions are written out here with
// every product rounded before it is added, since the compiler may fuse the
// two on some processors and math.Log has assembly on others.
package draw

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// Source is one stream of random numbers. It is not safe for concurrent use;
// its methods do not allocate.
type Source struct {
	pcg    rand.PCG
	spare  float64 // second normal of the polar method
	spared bool
}

// New returns the stream that seed and keys name. Streams of different keys
// are independent for every practical purpose.
func New(seed uint64, keys ...uint64) *Source {
	s := &Source{}
	s.Seed(Mix(seed, keys...))
	return s
}

// Seed restarts the stream at seed.
func (s *Source) Seed(seed uint64) {
	s.pcg.Seed(seed, mix(seed))
	s.spared = false
}

// Mix derives a seed from a seed and keys.
func Mix(seed uint64, keys ...uint64) uint64 {
	for _, k := range keys {
		seed = mix(seed ^ mix(k))
	}
	return seed
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable
// pseudorandom number generators", 2014), a bijection of 64 bits.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Uint64 returns 64 random bits.
func (s *Source) Uint64() uint64 { return s.pcg.Uint64() }

// Uniform returns a number in (0, 1], a multiple of 2^-53.
func (s *Source) Uniform() float64 { return float64(s.pcg.Uint64()>>11+1) * 0x1p-53 }

// IntN returns an integer in [0, n) without bias (Lemire, "Fast random integer
// generation in an interval", 2019); 0 when n is not positive.
func (s *Source) IntN(n int) int {
	if n <= 1 {
		return 0
	}
	limit := uint64(n)
	reject := -limit % limit
	for {
		if hi, lo := bits.Mul64(s.pcg.Uint64(), limit); lo >= reject {
			return int(hi)
		}
	}
}

// Exp returns an exponential number of mean 1, by inversion: -ln U.
func (s *Source) Exp() float64 { return -log(s.Uniform()) }

// Normal returns a standard normal number, by Marsaglia's polar method: for a
// point (u, v) drawn within the unit circle, q = u^2 + v^2, both
// u*sqrt(-2 ln q / q) and v*sqrt(-2 ln q / q) are normal and independent.
func (s *Source) Normal() float64 {
	if s.spared {
		s.spared = false
		return s.spare
	}
	for {
		u, v := float64(2*s.Uniform())-1, float64(2*s.Uniform())-1
		q := float64(u*u) + float64(v*v)
		if q >= 1 || q == 0 {
			continue
		}
		f := math.Sqrt(-2 * log(q) / q)
		s.spare, s.spared = v*f, true
		return u * f
	}
}

// Gamma returns a gamma number of the given shape k > 0 and scale 1 (mean k,
// variance k), by Marsaglia and Tsang, "A simple method for generating gamma
// variables", 2000: with d = k - 1/3, c = 1/sqrt(9d), x normal and
// v = (1 + c*x)^3, d*v is accepted when ln U < x^2/2 + d - d*v + d*ln v.
// Shapes below 1 take a number of shape k+1 times U^(1/k).
func (s *Source) Gamma(shape float64) float64 {
	boost := 1.0
	if shape < 1 {
		boost = exp(log(s.Uniform()) / shape)
		shape++
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := s.Normal()
		t := 1 + float64(c*x)
		if t <= 0 {
			continue
		}
		v := float64(t*t) * t
		if log(s.Uniform()) < float64(x*x/2)+d-float64(d*v)+float64(d*log(v)) {
			return boost * d * v
		}
	}
}

// LogNormal returns a lognormal number whose own mean and standard deviation
// are given: with r = stddev/mean, sigma^2 = ln(1 + r^2) and
// mu = ln(mean) - sigma^2/2, it is exp(mu + sigma*Z).
func (s *Source) LogNormal(mean, stddev float64) float64 {
	if mean <= 0 {
		return 0
	}
	r := stddev / mean
	v := log(1 + float64(r*r))
	return exp(log(mean) - v/2 + float64(math.Sqrt(v)*s.Normal()))
}

const (
	ln2Hi = 6.93147180369123816490e-01 // the upper 33 bits of ln 2
	ln2Lo = 1.90821492927058770002e-10 // ln 2 - ln2Hi
)

// log returns ln x for x > 0: x = 2^e * m with m in [sqrt(1/2), sqrt(2)), and
// ln m = 2 artanh(z) = 2 (z + z^3/3 + z^5/5 + ...), z = (m-1)/(m+1). |z| is at
// most 0.172, so the terms past z^21 are below one part in 2^53.
func log(x float64) float64 {
	if x <= 0 {
		return math.Inf(-1)
	}
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	z := (m - 1) / (m + 1)
	zz := z * z
	sum := 0.0
	for k := 21; k >= 1; k -= 2 {
		sum = float64(sum*zz) + 1/float64(k)
	}
	return float64(float64(e)*ln2Hi) + (float64(2*z*sum) + float64(float64(e)*ln2Lo))
}

// exp returns e^x: x = n ln 2 + r with |r| at most ln(2)/2, and e^r by its
// series up to r^14, whose next term is below one part in 2^53.
func exp(x float64) float64 {
	if x > 709 {
		return math.Inf(1)
	}
	if x < -745 {
		return 0
	}
	n := math.Floor(float64(x/math.Ln2) + 0.5)
	r := (x - float64(n*ln2Hi)) - float64(n*ln2Lo)
	sum := 1.0
	for k := 14; k >= 1; k-- {
		sum = 1 + float64(sum*r)/float64(k)
	}
	return math.Ldexp(sum, int(n))
}
