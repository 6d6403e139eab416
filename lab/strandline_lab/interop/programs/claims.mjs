// Prints what a client does, a line for each claim: `passed NAME`, or `failed NAME: reason`.

import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { inspect } from 'node:util'

const SECONDS = 60

/** Prints the version of the package in a folder. */
export function version(folder) {
  console.log(`version ${JSON.parse(readFileSync(join(folder, 'package.json'))).version}`)
}

/** Runs the work. The claim holds if it ends in time without an error. */
export async function claim(name, work) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${SECONDS} s`)), SECONDS * 1000)
  })
  try {
    await Promise.race([work(), late])
    console.log(`passed ${name}`)
  } catch (error) {
    console.error(inspect(error, { depth: 10 }))
    console.log(`failed ${name}: ${String(error).replace(/\s+/g, ' ').slice(0, 200)}`)
  } finally {
    clearTimeout(timer)
  }
}

/** Throws with both if their JSON differs. */
export function same(found, expected) {
  if (JSON.stringify(found) !== JSON.stringify(expected)) {
    throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(expected)}`)
  }
}

/** Waits until the condition holds. */
export async function until(condition) {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 100))
}

export const TRANSACTIONS = 'what is committed is read, and what is aborted is not'
/** One transaction each writes these to all partitions; and what is read of each partition then. */
export const VALUES = ['first', 'aborted', 'last']
export const COMMITTED = [0, 1, 2].map(() => ['first', 'last'])

export const COPIED = 'records are written and read over the death of a leader'
const HALF = 150

/** The records to write and read, twice; between, the leader of partition 0 is killed. */
export async function* halves(topic) {
  for (const half of [0, 1]) {
    if (half === 1) {
      console.log(`kill the leader of ${topic}`)
      await once(process.stdin, 'data')
    }
    const numbers = [...Array(HALF).keys()].map((each) => each + half * HALF)
    yield numbers.map((each) => ({
      partition: each % 3,
      key: `key-${each}`,
      value: `value-${each}`,
      headers: { number: `${each}` },
    }))
  }
}

/** Prints a record that was read, for the runner to compare. */
export function readBack(partition, key, number, value) {
  console.log(`read ${partition} ${key} number=${number} ${value}`)
}
