package canon

import "strings"

// Minor-unit exponents by ISO 4217, list one as published on 2026-01-01 (SIX Group, maintenance agency; the same
// digits in the list of 2024-06-25). Codes without a minor unit (metals, units of account, XXX, XTS) are left out: no
// amount is made of them. Currencies withdrawn since 2022 stay, and nothing is ever removed or changed here, because
// identities and fingerprints were computed with it (S3.12). A provider's own view of a currency (some count ISK or
// UGX in hundredths) belongs to its contract.
const (
	currenciesExponent0 = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
	currenciesExponent2 = "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP " +
		"BYN BZD CAD CDF CHE CHF CHW CNY COP COU CRC CUC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL " +
		"GHS GIP GMD GTQ GYD HKD HNL HRK HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL " +
		"MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR " +
		"PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SLL SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY " +
		"TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG ZWL"
	currenciesExponent3 = "BHD IQD JOD KWD LYD OMR TND"
	currenciesExponent4 = "CLF UYW"
)

var currencyExponents = exponentTable()

func exponentTable() map[string]int {
	table := make(map[string]int, 200)
	for exponent, codes := range map[int]string{
		0: currenciesExponent0,
		2: currenciesExponent2,
		3: currenciesExponent3,
		4: currenciesExponent4,
	} {
		for code := range strings.FieldsSeq(codes) {
			table[code] = exponent
		}
	}
	return table
}

// Currency returns the upper-case ISO 4217 code and its exponent: how many decimal digits its minor unit has. Codes
// are read in any case and otherwise as they are. A code that is unknown or has no minor unit is refused as
// unknown_currency.
func Currency(code string) (string, int, error) {
	upper := upperASCII(code)
	exponent, ok := currencyExponents[upper]
	if !ok {
		return "", 0, &Error{
			Problem: ProblemUnknownCurrency,
			Detail:  "not an ISO 4217 currency code with a minor unit",
			Remedy:  "use the three-letter code, such as EUR",
		}
	}
	return upper, exponent, nil
}

// upperASCII changes only a to z: strings.ToUpper would make "ı" an "I", and so a code out of what is none.
func upperASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, s)
}
