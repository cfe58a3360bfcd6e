#!/bin/bash
set -e
cd /app
echo ember > ember.txt
