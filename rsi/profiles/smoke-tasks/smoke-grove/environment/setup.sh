#!/bin/bash
set -e
cd /app
echo grove > grove.txt
