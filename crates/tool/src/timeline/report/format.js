"use strict"

/// Durations in nanoseconds, with three digits that matter.
function duration(nanos) {
  if (nanos === 0) return "0"
  const units = [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]]
  const [unit, size] = units.findLast(([, size]) => nanos >= size) ?? units[0]
  const value = nanos / size
  if (unit === "s" && value >= 120) {
    const seconds = Math.round(value)
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60]
    return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min ${seconds % 60} s`
  }
  const digits = unit === "ns" ? 0 : Math.max(0, 2 - Math.floor(Math.log10(value)))
  return `${Number(value.toFixed(digits))} ${unit}`
}

/// A time since the first request, with the digits that a range of this width shows.
function moment(nanos, width) {
  const units = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]]
  // A time that is far from the first request has large numbers in a small unit.
  const [unit, size] = units.find(([, size]) => width >= size * 2) ?? units.at(-1)
  const digits = unit === "ns" ? 0 : Math.max(0, 3 - Math.floor(Math.log10(width / size)))
  return `${grouped(Number((nanos / size).toFixed(digits)), digits)} ${unit}`
}

const formats = new Map()
function grouped(number, digits = 0) {
  if (!formats.has(digits)) {
    formats.set(digits, new Intl.NumberFormat("en", {
      minimumFractionDigits: 0, maximumFractionDigits: digits,
    }))
  }
  return formats.get(digits).format(number)
}

function counted(count, noun) {
  return `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`
}

/// A moment in ms since 1970. A file can have one that is no date.
function calendar(millis) {
  const date = new Date(millis)
  if (Number.isNaN(date.getTime())) return "an unknown date"
  return `${date.toISOString().replace("T", " ").replace("Z", "")} UTC`
}

/// A name as a person can read it: control characters and marks of direction are visible.
function visible(name) {
  if (name === "") return "(empty)"
  return name.replace(/[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu, mark => {
    return `\\u{${mark.codePointAt(0).toString(16)}}`
  })
}

/// Creates an element. A string is always text, never markup.
function element(tag, attributes = {}, ...children) {
  const created = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") created.addEventListener(name, value)
    else created.setAttribute(name, value)
  }
  created.append(...children)
  return created
}
