'use strict';
// Sends ten messages with ali-ons and receives them; prints the bodies.

const { Consumer, Message, Producer } = require('ali-ons');
const httpclient = require('urllib');

const [, , nameServers, topic] = process.argv;
const nameSrv = nameServers.split(';');
const COUNT = 10;
const user = { httpclient, nameSrv, accessKeyId: 'anybody', accessKeySecret: 'secret' };

async function main() {
  const producer = new Producer({ ...user, producerGroup: 'node-producer' });
  await producer.ready();
  for (let number = 0; number < COUNT; number++) {
    await producer.send(new Message(topic, '*', `node-${number}`));
  }
  const seen = new Set();
  const consumer = new Consumer({ ...user, consumerGroup: `node-consumer-${topic}`, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET' });
  consumer.subscribe(topic, '*', async message => {
    const body = message.body.toString();
    if (!seen.has(body)) {
      seen.add(body);
      console.log(`received ${body}`);
    }
    if (seen.size === COUNT) {
      process.exit(0);
    }
  });
}

main().catch(error => {
  console.error(error);
  process.exit(1);
});
